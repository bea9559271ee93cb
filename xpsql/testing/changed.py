"""Batches made of another, whose results an algorithm must not change: padded, one example alone, what is common held once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.blocks.bags import BagRows
from ..algorithms.blocks.base import along, every
from ..algorithms.blocks.histories import HISTORIES, History
from ..algorithms.inputs import Inputs
from ..algorithms.shared_inputs import CommonLines, Group

plain: Any = np
"""NumPy, whose arrays stand for JAX's: JAX would compile a program for each operation on its own."""

EXAMPLES, PADDING, ROWS, LONGEST = 6, 4, 24, 3
ABSENT = ROWS - 1
REPEATS = (2, 1, 3, 1, 1, 2)  # of each example
COMMON_BAG = 0


def padded(inputs: Inputs, examples: int) -> Inputs:
    """Return the batch with more examples, of weight 0 and without features, and longer histories and arrays."""
    return inputs._replace(
        scalar=plain.pad(inputs.scalar, ((0, 0), (0, examples)), constant_values=ABSENT),
        dense=plain.pad(inputs.dense, ((0, examples), (0, 0))),
        label=plain.pad(inputs.label, ((0, 0), (0, examples))),
        weight=plain.pad(inputs.weight, (0, examples)),
        blocks=every(inputs.blocks, lambda one: along(along(one, "B", longer(examples)), "L", longer(PADDING))),
    )


def longer(more: int) -> Callable[[Any, int], Any]:
    """Return what makes an axis of an array longer, with nothing in the new places."""

    def made(array: Any, axis: int) -> Any:
        widths = [(0, more if place == axis else 0) for place in range(array.ndim)]
        return plain.pad(array, widths, constant_values=ABSENT if array.dtype == np.int32 else 0)

    return made


def with_row(array: Any, row: int, values: Any) -> Any:
    """Return an array with other values in a row."""
    changed = np.array(array)
    changed[row] = values
    return changed


def alone(inputs: Inputs, example: int) -> Inputs:
    """Return the batch of one of its examples; what others have in multi-valued slots is padding in it."""
    bags = BagRows(*map(plain.asarray, inputs.bags))
    mine = bags.example == example
    one = slice(example, example + 1)
    return inputs._replace(
        scalar=plain.asarray(inputs.scalar)[:, one],
        bags=BagRows(
            plain.where(mine, bags.rows, np.int32(ABSENT)),
            plain.zeros_like(bags.example),
            plain.where(mine, bags.slot, np.int32(0)),
            plain.where(mine, bags.weight, np.float32(0)),
        ),
        dense=plain.asarray(inputs.dense)[one],
        label=plain.asarray(inputs.label)[:, one],
        weight=plain.asarray(inputs.weight)[one],
        blocks=every(
            inputs.blocks, lambda own: along(own, "B", lambda array, axis: plain.take(plain.asarray(array), [example], axis))
        ),
    )


def repeated(inputs: Inputs) -> tuple[Inputs, NDArray[np.intp]]:
    """Return a batch with each example several times, other numbers and labels each time, and which one each of them is."""
    owner = np.repeat(np.arange(EXAMPLES), REPEATS)
    batch = len(owner)
    mine = owner == np.asarray(inputs.bags.example)[:, None]
    value, example = np.nonzero(mine)
    return inputs._replace(
        scalar=plain.asarray(inputs.scalar)[:, owner],
        bags=taken(inputs.bags, value)._replace(example=as_codes(example)),
        dense=plain.asarray(inputs.dense)[owner] + (np.arange(batch)[:, None] / batch).astype(np.float32),
        label=plain.asarray(inputs.label)[:, owner] * (np.arange(batch) % 3 > 0),
        weight=plain.asarray(inputs.weight)[owner],
        blocks=every(
            inputs.blocks, lambda own: along(own, "B", lambda array, axis: plain.take(plain.asarray(array), owner, axis))
        ),
    ), owner


def compacted(inputs: Inputs, owner: NDArray[np.intp]) -> Inputs:
    """Return the batch with what neighbouring examples have in common held once: every other line, the first bag, histories.

    Args:
        owner: of `repeated`.
    """
    scalar = plain.asarray(inputs.scalar)
    common = np.arange(len(scalar)) % 2 == 0
    firsts = np.flatnonzero(np.diff(owner, prepend=-1))
    shared = plain.full((int(common.sum()), EXAMPLES + 1), ABSENT, np.int32)
    shared[:, :EXAMPLES] = scalar[common][:, firsts]
    owners = as_codes(owner)
    lines = CommonLines(shared, scalar[~common], owners, tuple(common.tolist()))
    slot, example = np.asarray(inputs.bags.slot), np.asarray(inputs.bags.example)
    once = (slot == COMMON_BAG) & np.isin(example, firsts)
    own = slot != COMMON_BAG
    values = taken(inputs.bags, once)._replace(example=as_codes(owner[example[once]]))
    group = Group(owners, values, EXAMPLES + 1, (COMMON_BAG,))
    histories = (
        History(
            plain.pad(plain.asarray(history.rows)[:, firsts], ((0, 0), (0, 1), (0, 0)), constant_values=ABSENT),
            plain.pad(plain.asarray(history.mask)[firsts], ((0, 1), (0, 0))),
            owners,
        )
        for history in inputs.block(HISTORIES)
    )
    return inputs._replace(
        scalar=lines,
        bags=taken(inputs.bags, own),
        group=group,
    ).having(HISTORIES, histories)


def taken(bags: BagRows, which: NDArray[Any]) -> BagRows:
    """Return some of the values."""
    return BagRows(*(plain.asarray(values)[which] for values in bags))


def as_codes(values: NDArray[Any]) -> Any:
    return values.astype(np.int32)
