"""The jitted step: from pulled rows and a batch to gradients and predictions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ....algorithms.base import Algorithm, Inputs
from ...input.batches import Batch
from ...input.offered import Offered, with_offered

Parameters = Mapping[str, jax.Array]


KEPT = 32  # programs of recent trainings: a CONTINUE compiles nothing


class Learned(NamedTuple):
    """What a training step returns.

    Attributes:
        gradients: by table, float32[size, dim], summed over examples.
        dense: by dense parameter, in its shape, averaged over examples.
        predictions: float32[batch, num_labels].
    """

    gradients: dict[str, jax.Array]
    dense: dict[str, jax.Array]
    predictions: jax.Array


Step = Callable[[Mapping[str, Any], Inputs, Offered | None], Learned]
ScoreStep = Callable[[Mapping[str, Any], Inputs, Offered | None], jax.Array]


@functools.lru_cache(maxsize=KEPT)
def learn_step(algorithm: Algorithm) -> Step:
    """Return the jitted training step: the gradients of the weighted sum of losses, and the predictions before it.

    No gradient flows into what operators offer.
    """
    names = [spec.name for spec in algorithm.dense]

    def loss(parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        scores = algorithm.scores(parameters, inputs)
        return (algorithm.loss(scores, inputs.label) * inputs.weight[:, None]).sum(), scores

    def step(parameters: Parameters, inputs: Inputs, offered: Offered | None) -> Learned:
        inputs = complete(algorithm, inputs._replace(label=inputs.label.T), offered)
        gradients, scores = jax.grad(loss, has_aux=True)(parameters, inputs)
        examples = jnp.maximum((inputs.weight > 0).sum(), 1)
        dense = {name: gradients.pop(name) / examples for name in names}
        return Learned(gradients, dense, algorithm.link(scores))

    return jax.jit(step)


@functools.lru_cache(maxsize=KEPT)
def score_step(algorithm: Algorithm) -> ScoreStep:
    """Return the jitted scoring step: predictions float32[batch, num_labels], or the vectors of examples."""

    def step(parameters: Parameters, inputs: Inputs, offered: Offered | None) -> jax.Array:
        if algorithm.embed is not None:
            return algorithm.embed(parameters, complete(algorithm, inputs, offered))
        return algorithm.link(algorithm.scores(parameters, complete(algorithm, inputs, offered)))

    return jax.jit(step)


class Objective(NamedTuple):
    """What a batch adds to an objective: its weighted loss, and the gradient float32[size, dim]."""

    loss: jax.Array
    gradient: jax.Array


@functools.lru_cache(maxsize=KEPT)
def objective_step(algorithm: Algorithm) -> Callable[[jax.Array, Inputs], Objective]:
    """Return the jitted step of an algorithm that learns all examples at once, over the rows of its one table."""
    (table,) = algorithm.tables

    def loss(rows: jax.Array, inputs: Inputs) -> jax.Array:
        scores = algorithm.scores({table.name: rows}, inputs)
        return (algorithm.loss(scores, inputs.label) * inputs.weight[:, None]).sum()

    return jax.jit(lambda rows, inputs: Objective(*jax.value_and_grad(loss)(rows, inputs)))


@functools.lru_cache(maxsize=KEPT)
def loss_step(algorithm: Algorithm) -> Callable[[Mapping[str, Any], Inputs], jax.Array]:
    """Return the jitted step that measures an algorithm without labels: the loss of each example, float32[batch, 1]."""
    return jax.jit(lambda parameters, inputs: algorithm.link(algorithm.scores(parameters, inputs)))


def complete(algorithm: Algorithm, inputs: Inputs, offered: Offered | None) -> Inputs:
    return inputs if offered is None else with_offered(inputs, offered, algorithm.intercept)


def inputs_of(batch: Batch, dense: NDArray[np.float32], random: NDArray[np.uint32] | None) -> Inputs:
    """Return a batch as the step takes it; labels as [num_labels, batch], which the step turns."""
    values = (batch.scalar, batch.bag_index, batch.bag_example, batch.bag_slot, batch.bag_weight)
    return Inputs._make((*values, dense, batch.dense_index, batch.label, batch.weight, random, batch.sampled_index))


def random_of(batch: Batch, seed: int) -> NDArray[np.uint32]:
    """Return what is random in the update of a batch, uint32[2]: a function of the seed and of which batch it is."""
    return np.random.SeedSequence((seed, *batch.id.draw)).generate_state(2).astype(np.uint32)
