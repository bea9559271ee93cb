"""Batches made of another, whose results an algorithm must not change: padded, one example alone, what is common held once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..algorithms.blocks.bags import BagRows
from ..algorithms.blocks.base import along, every
from ..algorithms.blocks.histories import HISTORIES, History
from ..algorithms.inputs import Inputs
from ..algorithms.shared_inputs import CommonLines, Group

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
        blocks=every(inputs.blocks, lambda one: along(along(one, "B", longer(examples)), "L", longer(PADDING))),
    )


def longer(more: int) -> Callable[[Any, int], jax.Array]:
    """Return what makes an axis of an array longer, with nothing in the new places."""

    def made(array: jax.Array, axis: int) -> jax.Array:
        widths = [(0, more if place == axis else 0) for place in range(array.ndim)]
        return jnp.pad(array, widths, constant_values=ABSENT if array.dtype == jnp.int32 else 0)

    return made


def alone(inputs: Inputs, example: int) -> Inputs:
    """Return the batch of one of its examples; what others have in multi-valued slots is padding in it."""
    mine = inputs.bags.example == example
    one = slice(example, example + 1)
    return inputs._replace(
        scalar=inputs.scalar[:, one],
        bags=BagRows(
            jnp.where(mine, inputs.bags.rows, ABSENT),
            jnp.zeros_like(inputs.bags.example),
            jnp.where(mine, inputs.bags.slot, 0),
            jnp.where(mine, inputs.bags.weight, 0),
        ),
        dense=inputs.dense[one],
        label=inputs.label[:, one],
        weight=inputs.weight[one],
        blocks=every(
            inputs.blocks, lambda own: along(own, "B", lambda array, axis: jnp.take(array, np.array([example]), axis))
        ),
    )


def repeated(inputs: Inputs) -> tuple[Inputs, NDArray[np.intp]]:
    """Return a batch with each example several times, other numbers and labels each time, and which one each of them is."""
    owner = np.repeat(np.arange(EXAMPLES), REPEATS)
    batch = len(owner)
    mine = owner == np.asarray(inputs.bags.example)[:, None]
    value, example = np.nonzero(mine)
    return inputs._replace(
        scalar=jnp.asarray(np.asarray(inputs.scalar)[:, owner]),
        bags=BagRows(*(values[value] for values in inputs.bags))._replace(example=jnp.asarray(example, jnp.int32)),
        dense=inputs.dense[owner] + jnp.arange(batch)[:, None] / batch,
        label=inputs.label[:, owner] * (jnp.arange(batch) % 3 > 0),
        weight=inputs.weight[owner],
        blocks=every(inputs.blocks, lambda own: along(own, "B", lambda array, axis: jnp.take(array, owner, axis))),
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
    slot, example = np.asarray(inputs.bags.slot), np.asarray(inputs.bags.example)
    once = (slot == COMMON_BAG) & np.isin(example, firsts)
    own = slot != COMMON_BAG
    values = BagRows(*(values[once] for values in inputs.bags))._replace(example=as_codes(owner[example[once]]))
    group = Group(owners, values, EXAMPLES + 1, (COMMON_BAG,))
    histories = (
        History(
            jnp.pad(history.rows[:, firsts], ((0, 0), (0, 1), (0, 0)), constant_values=ABSENT),
            jnp.pad(history.mask[firsts], ((0, 1), (0, 0))),
            owners,
        )
        for history in inputs.block(HISTORIES)
    )
    return inputs._replace(
        scalar=lines,
        bags=BagRows(*(values[own] for values in inputs.bags)),
        group=group,
    ).having(HISTORIES, histories)


def as_codes(values: NDArray[Any]) -> jax.Array:
    return jnp.asarray(values, jnp.int32)
