"""Pairs of items as features: what a row has, with the item that it is about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Pairs
from ..operators.base import INTERCEPT_NUMBER
from .encode import ABSENT, Bag, Chunk

HALF = np.uint64(32)
UPPER = np.uint64(0xFFFFFFFF00000000)

Keys = NDArray[np.uint64]


def pair_keys(items: Keys, had: Keys) -> Keys:
    """Return the keys of pairs: the upper half of the item's key, then the upper half of the key of what was had."""
    return (items & UPPER) | (had >> HALF)


def paired(chunk: Chunk, pairs: Pairs, negatives: int) -> Chunk:
    """Return a chunk whose rows have pairs instead of an item and a history, and the intercept.

    Args:
        negatives: how many rows after each are of items that were not taken. They have the pairs that some row before them
            has: what never went together needs no weight against it.
    """
    item, history, copies = chunk.scalar[pairs.item], chunk.bags[pairs.history], 1 + negatives
    rows = np.repeat(np.arange(len(item)), np.diff(history.offsets))
    had, about = history.codes, item[rows]
    joined, kept = about.astype(np.int64) * len(chunk.keys) + had, (had != about) & (about != ABSENT)
    if negatives:
        real = rows % copies == 0
        kept &= real | among(joined, np.unique(joined[kept & real]))
    distinct, inverse = np.unique(joined[kept], return_inverse=True)
    about, had = np.divmod(distinct, len(chunk.keys))
    keys = pair_keys(chunk.keys[about], chunk.keys[had])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(item)))]).astype(np.int64)
    bag = Bag(inverse.astype(np.int32), history.weights[kept], offsets)
    intercept = np.flatnonzero(chunk.slots == INTERCEPT_NUMBER)
    return chunk._replace(
        keys=np.concatenate([keys, chunk.keys[intercept]]),
        slots=np.concatenate([chunk.slots[had], chunk.slots[intercept]]),
        scalar=np.full((1, len(item)), len(keys), np.int32),
        bags=(bag,),
    )


def among(values: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which values are among known ones, which ascend."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    found: NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values
    return found
