"""The jitted step: from pulled rows and a batch to gradients and predictions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ....algorithms.base import Algorithm, Inputs, Parameters
from ....algorithms.inputs import SideVectors
from ....algorithms.layers.running import learning
from ....algorithms.shared_inputs import CommonLines, Group
from ...input.batches import Batch
from ...input.operator_inputs import Offered, with_offered
from ...ps.messages import Pulled
from ...ps.pieces import DensePiece, cut, joined
from .outputs import Said

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
ScoreStep = Callable[[Mapping[str, Any], Inputs, Offered | None], Said]


@functools.lru_cache(maxsize=KEPT)
def learn_step(algorithm: Algorithm, pieces: tuple[DensePiece, ...] = ()) -> Step:
    """Return the training step, jitted; see step_of."""
    return jax.jit(step_of(algorithm, pieces))


def step_of(algorithm: Algorithm, pieces: tuple[DensePiece, ...] = ()) -> Step:
    """Return the training step: the gradients of the weighted sum of losses, and the predictions before it, of one that learns
    without labels what metrics measure.

    No gradient flows into what operators offer.

    Args:
        pieces: in which dense parameters come, and their gradients go.
    """
    names, goal = [spec.name for spec in algorithm.dense], algorithm.goal

    def loss(parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        there = inputs.weight > 0
        with learning(there) as moving:
            losses, scores = goal.losses(parameters, inputs)
        total = (losses * inputs.weight[:, None]).sum()
        return total + there.sum() * sum(moving) if moving else total, scores

    def step(parameters: Parameters, inputs: Inputs, offered: Offered | None) -> Learned:
        inputs = complete(algorithm, inputs._replace(label=inputs.label.T), offered)
        gradients, scores = jax.grad(loss, has_aux=True)(joined(pieces, parameters), inputs)
        examples = jnp.maximum((inputs.weight > 0).sum(), 1)
        dense = {name: gradients.pop(name) / examples for name in names}
        return Learned(gradients, cut(pieces, dense), goal.predictions(scores))

    return step


@functools.lru_cache(maxsize=KEPT)
def score_step(algorithm: Algorithm) -> ScoreStep:
    """Return the jitted scoring step: what a model says of examples."""
    return jax.jit(functools.partial(say, algorithm))


def say(algorithm: Algorithm, parameters: Parameters, inputs: Inputs, offered: Offered | None) -> Said:
    """Score a batch."""
    goal, inputs = algorithm.goal, complete(algorithm, inputs, offered)
    predictions = goal.predictions(goal.scores(parameters, inputs)) if goal.scores is not None else None
    return Said(predictions, {name: output.value(parameters, inputs) for name, output in algorithm.outputs.items()})


class Objective(NamedTuple):
    """What a batch adds to an objective: its weighted loss, and the gradient float32[size, dim]."""

    loss: jax.Array
    gradient: jax.Array


ObjectiveStep = Callable[..., Objective]
"""(rows, inputs, what is offered) -> objective."""


@functools.lru_cache(maxsize=KEPT)
def objective_step(algorithm: Algorithm) -> ObjectiveStep:
    """Return the jitted step of an algorithm that learns all examples at once, over the rows of its one table."""
    (table,) = algorithm.tables

    def loss(rows: jax.Array, inputs: Inputs) -> jax.Array:
        return (algorithm.goal.losses({table.name: rows}, inputs)[0] * inputs.weight[:, None]).sum()

    def step(rows: jax.Array, inputs: Inputs, offered: Offered | None = None) -> Objective:
        return Objective(*jax.value_and_grad(loss)(rows, complete(algorithm, inputs, offered)))

    return jax.jit(step)


@functools.lru_cache(maxsize=KEPT)
def loss_step(algorithm: Algorithm) -> Callable[[Mapping[str, Any], Inputs], jax.Array]:
    """Return the jitted step that measures an algorithm without labels: the loss of each example, float32[batch, 1]."""
    return jax.jit(lambda parameters, inputs: algorithm.goal.losses(parameters, inputs)[1])


def complete(algorithm: Algorithm, inputs: Inputs, offered: Offered | None) -> Inputs:
    """Return the inputs with what operators offer of features, the statistics that the algorithm asks for last."""
    if offered is None:
        return inputs
    values, inputs_of_slots = jnp.asarray(offered.values), offered.values.shape[1] - len(algorithm.traits.statistics)
    if algorithm.traits.statistics:
        inputs = inputs._replace(statistics=values[:, inputs_of_slots:])
    if not inputs_of_slots:
        return inputs
    return with_offered(inputs, offered._replace(values=values[:, :inputs_of_slots]), algorithm.intercept is not None)


def inputs_of(
    batch: Batch,
    dense: NDArray[np.float32],
    random: NDArray[np.uint32] | None,
    sides: Sequence[SideVectors] | None = None,
) -> Inputs:
    """Return a batch as the step takes it; labels as [num_labels, batch], which the step turns.

    Args:
        sides: what is known of vectors with ids; None: the vectors themselves.
    """
    rest = dense, batch.dense_index, batch.label, batch.weight, random, batch.sampled_index
    scalar: Any = batch.scalar
    group: Any = None
    if (common := batch.group) is not None:
        scalar = CommonLines(common.scalar, batch.scalar, common.owner, common.lines)  # type: ignore[arg-type]
        group = Group(common.owner, common.values, common.scalar.shape[1], common.bags)  # type: ignore[arg-type]
    everything: list[Any] = [scalar, batch.bags, *rest, batch.blocks, None, group]
    everything.append(tuple(side.inputs(batch.size) for side in batch.sides) if sides is None else tuple(sides))
    everything.append(batch.expected)
    return Inputs(*everything)


def chosen(algorithm: Algorithm, batch: Batch, pulled: Pulled) -> Batch:
    """Return a batch with what its algorithm chooses of histories that are searched, by the rows that were pulled."""
    if algorithm.traits.search is None:
        return batch
    parameters = {name: np.asarray(values) for name, values in (*pulled.weights.items(), *pulled.dense.items())}
    return batch._replace(blocks=algorithm.traits.search.chosen(parameters, batch.codes, batch.blocks))


def random_of(batch: Batch, seed: int) -> NDArray[np.uint32]:
    """Return what is random in the update of a batch, uint32[2]: a function of the seed and of which batch it is."""
    return np.random.SeedSequence((seed, *batch.id.draw)).generate_state(2).astype(np.uint32)
