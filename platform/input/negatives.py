"""Rows of items that were not taken, drawn at random: what is learned beside a log of items that were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Negatives
from ..ps.messages import BatchId
from .chunk import Bag, Chunk
from .columns import Columns
from .vocabulary import ABSENT

Codes = NDArray[np.int32]
Rows = NDArray[np.intp]


def with_negatives(chunk: Chunk, negatives: Negatives, columns: Columns, others: Rows, start: int) -> Chunk:
    """Return some rows of a chunk, each followed by the same with the items of others, and label 0.

    Args:
        others: intp[n, negatives.number], the rows whose items follow each row from `start` on.
    """
    scalar, bags = [slot.name for slot in columns.scalar], [slot.name for slot in columns.bags]
    item, copies = chunk.scalar[scalar.index(negatives.item[0])], 1 + negatives.number
    own = np.repeat(np.arange(start, start + len(others)), copies)
    whose = np.column_stack([own[::copies], others]).reshape(-1)
    added = np.arange(len(own)) % copies != 0

    def lines(values: NDArray[Any], names: list[str]) -> NDArray[Any]:
        every = values.take(own, axis=1)
        for line in (line for line, name in enumerate(names) if name in negatives.item):
            every[line] = values[line].take(whose)
        return every

    chosen = tuple(bag.take(whose if name in negatives.item else own) for bag, name in zip(chunk.bags, bags, strict=True))
    known = (bag for bag, name in zip(chosen, bags, strict=True) if name in negatives.had)
    useless = (item[whose] == item[own]) | had(item[whose], known)
    facets = chunk.facets
    if facets is not None:
        facets = facets._replace(**{name: values[own] if len(values) else values for name, values in facets._asdict().items()})
    return chunk._replace(
        scalar=lines(chunk.scalar, scalar),
        bags=chosen,
        dense=lines(chunk.dense, dense_names(columns)),
        label=np.where(added, np.float32(0), chunk.label.take(own, axis=1)),
        weight=np.where(added & useless, np.float32(0), chunk.weight[own]),
        time=chunk.time[own],
        facets=facets,
        histories=tuple(one.take(own) for one in chunk.histories),
    )


def dense_names(columns: Columns) -> list[str]:
    """Return the slot of each line of `Chunk.dense`."""
    vectors = [slot.name for slot in columns.vectors for _ in range(slot.dim)]
    return [*(slot.name for slot in columns.continuous), *vectors]


def drawn(chunk: Chunk, negatives: Negatives, columns: Columns, seed: int, first: BatchId) -> Rows:
    """Return, for each row of a chunk, rows of items that are added after it, intp[rows, negatives.number].

    They are a function of the seed, the pass, what the chunk holds and its first batch's number in its split, so that a version
    that continues another draws what one training on all the data would have. Where no row has an item they are the row itself.
    """
    scalar = [slot.name for slot in columns.scalar]
    item = chunk.scalar[scalar.index(negatives.item[0])]
    random = np.random.default_rng((seed, int(np.bitwise_xor.reduce(chunk.keys)), first.pass_number, first.batch))
    rows = np.flatnonzero(item != ABSENT)
    if not len(rows):
        return np.repeat(np.arange(len(item))[:, None], negatives.number, axis=1)
    counts = np.bincount(item[rows]).astype(np.float64)
    upto = np.cumsum(counts[item[rows]] ** (negatives.power - 1))
    places = np.searchsorted(upto, random.random((len(item), negatives.number)) * upto[-1], side="right")
    found: Rows = rows[places]
    return found


def had(item: Codes, bags: Iterable[Bag]) -> NDArray[np.bool_]:
    """Return which rows' item is a value of one of their bags."""
    found = np.zeros(len(item), np.bool_)
    for bag in bags:
        rows = np.repeat(np.arange(len(item)), np.diff(bag.offsets))
        found[rows[bag.codes == item[rows]]] = True
    return found
