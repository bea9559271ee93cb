"""Batches made of another, whose results an algorithm must not change: padded, one example alone, what is common held once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..algorithms.inputs import History, Inputs, Vectors
from ..algorithms.lines import CommonLines, Group

EXAMPLES, PADDING, ROWS, LONGEST = 6, 4, 24, 3
ABSENT = ROWS - 1
REPEATS = (2, 1, 3, 1, 1, 2)  # of each example
COMMON_BAG = 0


def padded(inputs: Inputs, examples: int) -> Inputs:
    """Return the batch with more examples, of weight 0 and without features, and longer histories and arrays."""
    return inputs._replace(
        scalar=jnp.pad(jnp.asarray(inputs.scalar), ((0, 0), (0, examples)), constant_values=ABSENT),
        dense=jnp.pad(inputs.dense, ((0, examples), (0, 0))),
        label=jnp.pad(inputs.label, ((0, 0), (0, examples))),
        weight=jnp.pad(inputs.weight, (0, examples)),
        histories=tuple(
            History(
                jnp.pad(history.rows, ((0, 0), (0, examples), (0, PADDING)), constant_values=ABSENT),
                jnp.pad(history.mask, ((0, examples), (0, PADDING))),
            )
            for history in inputs.histories
        ),
        vector_arrays=tuple(
            Vectors(
                jnp.pad(one.values, ((0, examples), (0, PADDING), (0, 0))), jnp.pad(one.mask, ((0, examples), (0, PADDING)))
            )
            for one in inputs.vector_arrays
        ),
    )


def alone(inputs: Inputs, example: int) -> Inputs:
    """Return the batch of one of its examples; what others have in multi-valued slots is padding in it."""
    mine = inputs.bag_example == example
    one = slice(example, example + 1)
    return inputs._replace(
        scalar=inputs.scalar[:, one],
        bag_index=jnp.where(mine, inputs.bag_index, ABSENT),
        bag_example=jnp.zeros_like(inputs.bag_example),
        bag_slot=jnp.where(mine, inputs.bag_slot, 0),
        bag_weight=jnp.where(mine, inputs.bag_weight, 0),
        dense=inputs.dense[one],
        label=inputs.label[:, one],
        weight=inputs.weight[one],
        histories=tuple(History(history.rows[:, one], history.mask[one]) for history in inputs.histories),
        vector_arrays=tuple(Vectors(own.values[one], own.mask[one]) for own in inputs.vector_arrays),
    )


def repeated(inputs: Inputs) -> tuple[Inputs, NDArray[np.intp]]:
    """Return a batch with each example several times, other numbers and labels each time, and which one each of them is."""
    owner = np.repeat(np.arange(EXAMPLES), REPEATS)
    batch = len(owner)
    mine = owner == np.asarray(inputs.bag_example)[:, None]
    value, example = np.nonzero(mine)
    return inputs._replace(
        scalar=jnp.asarray(np.asarray(inputs.scalar)[:, owner]),
        bag_index=inputs.bag_index[value],
        bag_example=jnp.asarray(example, jnp.int32),
        bag_slot=inputs.bag_slot[value],
        bag_weight=inputs.bag_weight[value],
        dense=inputs.dense[owner] + jnp.arange(batch)[:, None] / batch,
        label=inputs.label[:, owner] * (jnp.arange(batch) % 3 > 0),
        weight=inputs.weight[owner],
        histories=tuple(History(history.rows[:, owner], history.mask[owner]) for history in inputs.histories),
        vector_arrays=tuple(Vectors(one.values[owner], one.mask[owner]) for one in inputs.vector_arrays),
    ), owner


def compacted(inputs: Inputs, owner: NDArray[np.intp]) -> Inputs:
    """Return the batch with what neighbouring examples have in common held once: every other line, the first bag, histories.

    Args:
        owner: of `repeated`.
    """
    scalar = np.asarray(inputs.scalar)
    common = np.arange(len(scalar)) % 2 == 0
    firsts = np.flatnonzero(np.diff(owner, prepend=-1))
    shared = np.full((int(common.sum()), EXAMPLES + 1), ABSENT, np.int32)
    shared[:, :EXAMPLES] = scalar[common][:, firsts]
    owners = as_codes(owner)
    lines = CommonLines(jnp.asarray(shared), jnp.asarray(scalar[~common]), owners, tuple(common.tolist()))
    slot, example = np.asarray(inputs.bag_slot), np.asarray(inputs.bag_example)
    once = (slot == COMMON_BAG) & np.isin(example, firsts)
    own = slot != COMMON_BAG
    group = Group(
        owners,
        inputs.bag_index[once],
        as_codes(owner[example[once]]),
        inputs.bag_slot[once],
        inputs.bag_weight[once],
        EXAMPLES + 1,
        (COMMON_BAG,),
    )
    return inputs._replace(
        scalar=lines,
        bag_index=inputs.bag_index[own],
        bag_example=inputs.bag_example[own],
        bag_slot=inputs.bag_slot[own],
        bag_weight=inputs.bag_weight[own],
        histories=tuple(
            History(
                jnp.pad(history.rows[:, firsts], ((0, 0), (0, 1), (0, 0)), constant_values=ABSENT),
                jnp.pad(history.mask[firsts], ((0, 1), (0, 0))),
                owners,
            )
            for history in inputs.histories
        ),
        group=group,
    )


def as_codes(values: NDArray[Any]) -> jax.Array:
    return jnp.asarray(values, jnp.int32)
