"""Inputs of a trial's examples for a block of slots: histories, arrays of vectors."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..algorithms.blocks.base import SlotBlock
from .changed import ABSENT, EXAMPLES, LONGEST

SEED = 7


def trial_of(block: SlotBlock[Any, Any, Any], slots: Any) -> Any:
    """Return a block's inputs of 0 to 3 elements; a row of one of them is NULL, of values without rows a whole element."""
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
