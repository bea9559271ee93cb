"""Pairs of items as features: what a row has, with the item that it is about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Pairs
from ..operators.base import INTERCEPT_NUMBER
from ..ps.table import BatchId
from .encode import ABSENT, Bag, Chunk

HALF = np.uint64(32)
UPPER = np.uint64(0xFFFFFFFF00000000)

Codes = NDArray[np.int32]
Keys = NDArray[np.uint64]


def pair_keys(items: Keys, had: Keys) -> Keys:
    """Return the keys of pairs: the upper half of the item's key, then the upper half of the key of what was had."""
    return (items & UPPER) | (had >> HALF)


def paired(chunk: Chunk, pairs: Pairs, seeds: tuple[int, BatchId] | None) -> Chunk:
    """Return a chunk whose rows have pairs instead of an item and a history, and the intercept.

    Random rows have the pairs that some other row of the chunk has: what never went together needs no weight against it.

    Args:
        seeds: the seed and the first batch of the chunk, from which rows of items that were not taken are drawn: as many after
            each row as `pairs.negatives`; None for none.
    """
    item, history = chunk.scalar[pairs.item], chunk.bags[pairs.history]
    copies = 1
    if seeds is not None and pairs.negatives:
        copies += pairs.negatives
        chunk, item = with_negatives(chunk, item, copies, drawn(chunk, pairs, *seeds))
        history = repeated(history, copies)
    rows = np.repeat(np.arange(len(item)), np.diff(history.offsets))
    had, about = history.codes, item[rows]
    same = (had == about) & (about != ABSENT)
    if copies > 1:
        chunk = without(chunk, np.unique(rows[same]), copies)
    joined, kept = about.astype(np.int64) * len(chunk.keys) + had, ~same & (about != ABSENT)
    if copies > 1:
        kept &= (rows % copies == 0) | among(joined, np.unique(joined[kept & (rows % copies == 0)]))
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


def drawn(chunk: Chunk, pairs: Pairs, seed: int, first: BatchId) -> Codes:
    """Return the codes of random items, int32[rows * negatives], by how often the chunk has them."""
    item = chunk.scalar[pairs.item]
    counts = np.bincount(item[item != ABSENT], minlength=len(chunk.keys)).astype(np.float64)
    codes = np.flatnonzero(counts).astype(np.int32)
    if not len(codes):
        return np.full(len(item) * pairs.negatives, ABSENT, np.int32)
    upto = np.cumsum(counts[codes] ** pairs.power)
    random = np.random.default_rng((seed, int(np.bitwise_xor.reduce(chunk.keys)), first.pass_number, first.batch))
    chosen: Codes = codes.take(np.searchsorted(upto, random.random(len(item) * pairs.negatives) * upto[-1], side="right"))
    return chosen


def with_negatives(chunk: Chunk, item: Codes, copies: int, others: Codes) -> tuple[Chunk, Codes]:
    """Return a chunk with rows of label 0 after each row, and the items of all rows."""
    rows = len(item)
    items = np.empty((rows, copies), np.int32)
    items[:, 0], items[:, 1:] = item, others.reshape(rows, -1)
    items[:, 1:][items[:, 1:] == item[:, None]] = ABSENT
    label = np.zeros((len(chunk.label), rows, copies), np.float32)
    label[:, :, 0] = chunk.label
    facets = chunk.facets
    if facets is not None:
        facets = facets._replace(**{name: np.repeat(values, copies) for name, values in facets._asdict().items()})
    whole = chunk._replace(
        label=label.reshape(len(chunk.label), -1),
        weight=np.repeat(chunk.weight, copies),
        time=np.repeat(chunk.time, copies),
        dense=np.repeat(chunk.dense, copies, axis=1),
        facets=facets,
    )
    return whole, items.reshape(-1)


def without(chunk: Chunk, rows: NDArray[np.intp], copies: int) -> Chunk:
    """Return a chunk in which random rows of items that the user has, and of the item that was taken, count nothing."""
    weight = chunk.weight.copy()
    weight[rows[rows % copies != 0]] = 0
    return chunk._replace(weight=weight)


def repeated(bag: Bag, copies: int) -> Bag:
    """Return a bag in which each row's values stand `copies` times, a row each."""
    lengths = np.repeat(np.diff(bag.offsets), copies)
    starts = np.repeat(bag.offsets[:-1], copies)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    index = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - starts, lengths)
    return Bag(bag.codes[index], bag.weights[index], offsets)
