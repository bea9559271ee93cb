"""The work on batches: pull, compute, push."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..ps.client import Client, Handle
from ..ps.moments import merged, moments_of
from ..ps.shard import Pulled, Push
from ..ps.table import Touched
from .batches import Batch
from .offered import offered_of
from .recipe import Recipe
from .scaling import scale
from .step import inputs_of, learn_step, random_of

Done = Callable[[Batch, NDArray[np.float32]], None]


class Worker:
    """Learns from batches.

    Args:
        number: among the workers of a training, from 0.
        client: reaches the shards.
        recipe: what is learned.
        done: called after each batch whose push is sent, with its predictions float32[examples].
    """

    def __init__(self, number: int, client: Client, recipe: Recipe, done: Done) -> None:
        self._number = number
        self._client = client
        self._step = learn_step(recipe.algorithm)
        self._returned: Sequence[str] = [one.spec.name for one in recipe.programs if one.needs_pulled]
        self._seed = recipe.dense.seed if recipe.algorithm.random else None
        self._done = done

    def learn(self, batches: Iterable[Batch], begin: Callable[[], bool], paced: bool) -> None:
        """Learn from batches one after the other.

        The next pull is sent with a push, not after its answer; shards carry them out in that order.

        Args:
            begin: waits until the next step may begin; False ends the work.
            paced: a step begins when the push before it is acknowledged.
        """
        pushed: Handle[None] | None = None
        for batch in batches:
            if paced and pushed is not None:
                pushed.result()
            if not begin():
                break
            pulling = self._client.start_pull(batch.keys, batch.size)
            if pushed is not None:
                pushed.result()
            pushed = self._learn(batch, pulling.result())
        if pushed is not None:
            pushed.result()

    def _learn(self, batch: Batch, pulled: Pulled) -> Handle[None]:
        moments = moments_of(batch.dense[: len(pulled.moments.count)])
        size = batch.scalar.shape[1] if len(batch.scalar) else len(batch.weight)
        dense = scale(batch.dense, merged(pulled.moments, moments), size)
        parameters, offered = {**pulled.weights, **pulled.dense}, offered_of(batch, pulled.offered)
        random = None if self._seed is None else random_of(batch, self._seed)
        learned = self._step(parameters, inputs_of(batch, dense, random), offered)
        gradients = {name: np.asarray(values) for name, values in learned.gradients.items()}
        positives = int(np.count_nonzero(batch.label[0, : batch.examples] > 0))
        arrays = (batch.keys, batch.slots, batch.counts, batch.clicks)
        touched = Touched(*arrays, batch.time_seconds, batch.id, batch.examples, positives)
        weights = {name: pulled.weights[name] for name in self._returned}
        pushed = self._client.start_push(
            Push(touched, pulled.updates, gradients, weights, learned.dense, moments, self._number)
        )
        self._done(batch, np.asarray(learned.predictions)[: batch.examples, 0])
        return pushed
