"""The work on batches: pull, compute, push."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...input.batches import Batch
from ...input.operator_inputs import offered_of
from ...input.prefetch import Coming
from ...input.scaling import Scales, measured, scale
from ...input.source import End
from ...input.timing import Clock
from ...ps.client import Client, Handle, ReadyAnswer
from ...ps.compiled.ladder import Ladder
from ...ps.compiled.row_programs import row_programs
from ...ps.messages import Pulled, Push, Touched
from ...ps.moments import Moments, merged
from ...ps.networks.network_shards import NetworkShards
from ..recipe import Recipe
from .narrowing import narrowed
from .on_device import step_for
from .step import Learned, chosen, inputs_of, random_of
from .vector_networks import BatchOutputs, start_outputs

Done = Callable[[Batch, NDArray[np.float32]], None]


class Upcoming(NamedTuple):
    """A worker's next item: a batch, with its pull if that is under way; or the end of a turn."""

    item: Batch | End
    pulling: Handle[Pulled] | None


class Worker:
    """Learns from batches.

    Args:
        number: among the workers of a training, from 0.
        client: reaches the shards.
        recipe: what is learned.
        done: called after each batch whose push is sent, with its predictions float32[num_labels, examples].
        ended: called after each turn, when all shards have acknowledged all of its batches.
        clock: measures the steps of learning.
        in_step: dense parameters change once all workers have pushed (hybrid): where pulls go ahead, they bring rows alone.
        networks: over vectors with ids, where shards run them.
    """

    def __init__(
        self,
        number: int,
        client: Client,
        recipe: Recipe,
        done: Done,
        ended: Callable[[End], None],
        clock: Clock,
        in_step: bool = False,
        networks: NetworkShards | None = None,
    ) -> None:
        self._number = number
        self._client = client
        learns = recipe.algorithm.learns
        self._algorithm, self._step = recipe.algorithm, step_for(recipe, networks is not None)
        self._rows_on_device = recipe.place is not None and recipe.place.rows
        self._returned: Sequence[str] = [name for rows in row_programs(recipe.programs) for name in rows.needs_pulled]
        self._networks, kept = networks, frozenset() if networks is None else networks.sizes.keys()
        self._kept = kept
        self._dense_returned = [name for name in recipe.dense.pulled if name not in kept]
        self._seed = recipe.dense.seed if learns.random else None
        self._standardised = recipe.algorithm.standardised
        self._late = recipe.algorithm.late
        self._done = done
        self._ended = ended
        self._clock = clock
        self._in_step = in_step
        self._ladder = Ladder()
        self._dense: Handle[Pulled] | None = None  # of the step to come, where pulls ahead lack them

    def learn(self, batches: Iterable[Batch | End], begin: Callable[[], bool], paced: bool) -> None:
        """Learn from batches one after the other.

        The next pull is sent with a push, not after its answer; shards carry them out in that order. A batch that every shard
        has is only scored, which is no step.

        Args:
            begin: waits until the next step may begin; False ends the work.
            paced: a step begins when the push before it is acknowledged.
        """
        self._learn_all((Upcoming(item, None) for item in batches), begin, paced, 0)

    def learn_ahead(
        self, batches: Coming[Batch | End], begin: Callable[[], bool], depth: int, wanted: Callable[[Batch | End], bool]
    ) -> None:
        """Learn as `learn` does, but pipelined: while a batch is computed, the pulls of the next `depth` batches and as many
        earlier pushes are under way. So a pull lacks that many of this worker's own updates, beside others'.

        Args:
            batches: batches that are not ready yet are not waited for.
            wanted: returns whether this worker is to learn a batch, or an end; else it is left out.
        """
        self._dense = self._client.start_pull_dense() if self._in_step else None
        self._learn_all(self._pulled_ahead(batches, depth, wanted), begin, False, depth)

    def _pulled_ahead(
        self, batches: Coming[Batch | End], depth: int, wanted: Callable[[Batch | End], bool]
    ) -> Generator[Upcoming, None, None]:
        """Yield each item once the pulls of the following ones are under way."""
        coming: deque[Upcoming] = deque()
        while True:
            while len(coming) <= depth and (batches.ready or not coming):
                item = next(batches, None)
                if item is None:
                    yield from coming
                    return
                self._clock.lap("input_wait")
                if wanted(item):
                    coming.append(Upcoming(item, None if isinstance(item, End) else self._start_pull(item)))
                self._clock.lap("pull")
            upcoming = coming.popleft()
            if wanted(upcoming.item):
                yield upcoming

    def _start_pull(self, batch: Batch) -> Handle[Pulled]:
        return self._client.start_pull(batch.keys, batch.size, self._dense is None)

    def _learn_all(self, upcoming: Iterable[Upcoming], begin: Callable[[], bool], paced: bool, under_way: int) -> None:
        """Learn all items.

        Args:
            under_way: pushes whose answers are not awaited before the next batch is computed on.
        """
        pushes: deque[Handle[object]] = deque()
        lap = self._clock.lap

        def acknowledged(most: int) -> None:
            while len(pushes) > most:
                pushes.popleft().result()
                lap("push")

        for batch, pulling in upcoming:
            lap("input_wait")
            if paced or isinstance(batch, End):
                acknowledged(0)
            if isinstance(batch, End):
                self._ended(batch)
                continue
            if not batch.applied and not begin():
                break
            lap("pace_wait")
            pulling = pulling or self._start_pull(batch)
            made = None if self._networks is None else self._start_outputs(batch, self._networks)
            lap("pull")
            pulled = pulling.result()
            if self._dense is not None:
                self._dense = ReadyAnswer(own := self._dense.result())  # for the next, too, where nothing is pushed
                pulled = pulled._replace(dense=own.dense, dense_updates=own.dense_updates)
            lap("pull")
            acknowledged(under_way)
            if (pushed := self._take(batch, pulled, made)) is not None:
                pushes.append(pushed)
                if self._dense is not None:
                    self._dense = self._client.start_pull_dense()
        acknowledged(0)

    def _start_outputs(self, batch: Batch, networks: NetworkShards) -> BatchOutputs:
        return start_outputs(batch, [one.name for one in self._algorithm.sides], networks, self._number)

    def _take(self, batch: Batch, pulled: Pulled, made: BatchOutputs | None) -> Handle[object] | None:
        """Score a batch and learn from it; return its push, None where shards have it."""
        num_labels = len(batch.label) if self._standardised else 0
        moments = measured(batch, pulled.moments, num_labels)
        by = Scales.of(merged(pulled.moments, moments), num_labels)
        batch, pulled = self._chosen(batch, pulled)
        learned = self._learn(by.standardised(batch), pulled, by, made)
        predictions = by.restored(np.asarray(learned.predictions)[: batch.examples]).T
        self._clock.lap("compute")
        pushed = None if batch.applied else self._push(batch, pulled, moments, learned, made)
        self._clock.lap("push")
        self._done(batch, predictions)
        self._clock.lap("count")
        return pushed

    def _chosen(self, batch: Batch, pulled: Pulled) -> tuple[Batch, Pulled]:
        """Return a batch with what is chosen of histories that are searched, and what was pulled of that."""
        batch = chosen(self._algorithm, batch, pulled)
        search = self._algorithm.traits.search
        if search is None or not search.by_rows or self._rows_on_device or batch.sides:
            return batch, pulled
        return narrowed(batch, pulled, self._ladder)

    def _learn(self, batch: Batch, pulled: Pulled, by: Scales, made: BatchOutputs | None) -> Learned:
        dense = scale(batch.dense, by.slots, len(batch.weight))
        parameters, offered = {**pulled.weights, **pulled.dense}, offered_of(batch, pulled.offered)
        if made is not None:
            own: dict[str, Any] = {name: values for name, values in parameters.items() if name not in self._kept}
            parameters = own | made.parameters()
        random = None if self._seed is None else random_of(batch, self._seed)
        return self._step(parameters, inputs_of(batch, dense, random, made and made.inputs), offered)

    def _push(
        self, batch: Batch, pulled: Pulled, moments: Moments, learned: Learned, made: BatchOutputs | None
    ) -> Handle[object]:
        gradients: Any = learned.gradients  # which stay where the rows are
        if not self._rows_on_device:
            gradients = {name: np.asarray(values) for name, values in learned.gradients.items()}
        positives = int(np.count_nonzero(batch.label[0, : batch.examples] > 0))
        counts, examples = batch.counts, batch.examples
        if self._late:  # a clicked example was counted when it was shown
            counts, examples = counts - batch.clicks, examples - positives
        touched = Touched(batch.keys, batch.slots, counts, batch.clicks, batch.time_seconds, batch.id, examples, positives)
        weights = {name: pulled.weights[name] for name in self._returned}
        dense = {name: pulled.dense[name] for name in self._dense_returned}
        rest: Any = learned.dense, moments, self._number, pulled.dense_updates, dense
        if made is not None:
            rest = *rest, made.gradients(gradients, int(np.count_nonzero(batch.weight > 0)))
        push = Push(touched, pulled.updates, gradients, weights, *rest)
        return self._client.start_push(push)
