"""Inputs of a trial's examples for a block of slots: histories, arrays of vectors, events."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..algorithms.blocks.base import BatchWindow, SlotBlock
from ..algorithms.blocks.events import EVENTS, EventRows
from .changed import ABSENT, EXAMPLES, LONGEST

SEED = 7


def trial_of(block: SlotBlock[Any, Any, Any], slots: Any) -> Any:
    """Return a block's inputs of 0 to 3 elements; a row of one of them is NULL, of values without rows a whole element."""
    if block is EVENTS:
        return trial_of_events(slots.length)
    elements = [[16, 17, 18], [17], [], [3, 16], [18], [16, 16]]
    sizes = {**block.sizes(slots), "B": EXAMPLES, "L": LONGEST}
    mask, arrays = np.arange(LONGEST) < np.array([len(own) for own in elements])[:, None], dict[str, Any]()
    mask[0, 1] = block.rows
    for name, (axes, dtype) in block.arrays.items():
        shape = tuple(sizes[axis] for axis in axes)
        if dtype is np.float32:
            arrays[name] = np.random.default_rng(SEED).normal(size=shape) * mask.reshape(*mask.shape, *[1] * (len(shape) - 2))
        elif dtype is np.int32:
            arrays[name] = np.full(shape, ABSENT)
            for field, rows in enumerate(arrays[name]):
                for example, own in enumerate(elements):
                    rows[example, : len(own)] = np.roll(own, field)
            arrays[name][1:, 0, 1] = ABSENT
        else:
            arrays[name] = mask
    return block.made({name: jnp.asarray(values, block.arrays[name].dtype) for name, values in arrays.items()})


def trial_of_events(length: int) -> Any:
    """Return the examples as events of three users, whose one field has the rows that the first categorical slot has."""
    users, times = np.array([1, 1, 1, 2, 2, 3], np.uint64), np.array([1, 2, 2, 5, 9, 4]) * 1_000_000
    rows = EventRows(users, times, length, np.array([[0, 1, 2, 0, 1, 17]], np.int32))
    window = BatchWindow(0, EXAMPLES, EXAMPLES, ABSENT, lambda longest, most: EXAMPLES, np.empty)
    return rows.cut(window, rows.features(0, EXAMPLES)[0])
