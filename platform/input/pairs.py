"""Pairs of items as features: what a row has, with the item that it is about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Pairs
from ..operators.base import INTERCEPT_NUMBER
from .chunk import Bag, Chunk
from .vocabulary import ABSENT

HALF = np.uint64(32)
UPPER = np.uint64(0xFFFFFFFF00000000)

Keys = NDArray[np.uint64]
Numbers = NDArray[np.int64]


def pair_keys(items: Keys, had: Keys) -> Keys:
    """Return the keys of pairs: the upper half of the item's key, then the upper half of the key of what was had."""
    return (items & UPPER) | (had >> HALF)


def paired(chunk: Chunk, pairs: Pairs, copies: int = 1, known: Numbers | None = None) -> Chunk:
    """Return a chunk whose rows have pairs instead of an item and a history, and the intercept.

    Args:
        copies: so many rows stand one after the other for each row of the data: itself, then those of items not taken.
        known: int64[k], see known_pairs; these have no others, as what never went together needs no weight against it.
    """
    rows, joined, kept = joined_with(chunk, pairs)
    if known is not None:
        kept &= (rows % copies == 0) | among(joined, known)
    distinct, inverse = np.unique(joined[kept], return_inverse=True)
    about, had = np.divmod(distinct, len(chunk.keys))
    keys = pair_keys(chunk.keys[about], chunk.keys[had])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(chunk.weight)))]).astype(np.int64)
    bag = Bag(inverse.astype(np.int32), chunk.bags[pairs.history].weights[kept], offsets)
    intercept = np.flatnonzero(chunk.slots == INTERCEPT_NUMBER)
    return chunk._replace(
        keys=np.concatenate([keys, chunk.keys[intercept]]),
        slots=np.concatenate([chunk.slots[had], chunk.slots[intercept]]),
        scalar=np.full((1, len(chunk.weight)), len(keys), np.int32),
        bags=(bag,),
    )


def known_pairs(chunk: Chunk, pairs: Pairs) -> Numbers:
    """Return the pairs that some row of a chunk has, numbered as joined_with numbers them, ascending."""
    _, joined, kept = joined_with(chunk, pairs)
    return np.unique(joined[kept])


def joined_with(chunk: Chunk, pairs: Pairs) -> tuple[NDArray[np.intp], Numbers, NDArray[np.bool_]]:
    """Return, of each item of a history, its row, the number of its pair with the row's item, and whether the two make one."""
    item, history = chunk.scalar[pairs.item], chunk.bags[pairs.history]
    rows = np.repeat(np.arange(len(item)), np.diff(history.offsets))
    about = item[rows]
    joined = about.astype(np.int64) * len(chunk.keys) + history.codes
    return rows, joined, (history.codes != about) & (about != ABSENT)


def among(values: Numbers, known: Numbers) -> NDArray[np.bool_]:
    """Return which values are among known ones, which ascend."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    found: NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values
    return found
