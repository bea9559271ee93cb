"""Negative sampling: rows of random items that were not taken, learned beside a log of items that were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..augment import Augment, Draw, Prepare
from ..blocks.base import every
from ..chunk import ABSENT, Bag, Chunk, Codes
from ..inputs import Layout

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Negatives(Augment):
    """Rows of items that were not taken, which a training adds: the same row, with label 0 and the item of another one.

    Attributes:
        number: of them, after each row.
        power: items are drawn by count^power.
        item: the slots of the item; the first one, which is categorical, is the item's id.
        had: the multi-valued slots of items that the user has; an added row of one of them, or of the item taken, has weight 0.
    """

    number: int
    power: float
    item: tuple[str, ...]
    had: tuple[str, ...]

    @property
    def copies(self) -> int:
        """See Augment."""
        return 1 + self.number

    def prepare(self, chunk: Chunk, layout: Layout, draw: Draw) -> Prepare:
        """See Augment."""
        others = drawn(chunk, self, layout, draw)
        return lambda piece, start, stop: with_negatives(chunk, self, layout, others[start:stop], start)


def with_negatives(chunk: Chunk, negatives: Negatives, layout: Layout, others: Rows, start: int) -> Chunk:
    """Return some rows of a chunk, each followed by the same with the items of others, and label 0.

    Args:
        others: intp[n, negatives.number], the rows whose items follow each row from `start` on.
    """
    item, copies = chunk.scalar[layout.scalar.index(negatives.item[0])], 1 + negatives.number
    own = np.repeat(np.arange(start, start + len(others)), copies)
    whose = np.column_stack([own[::copies], others]).reshape(-1)
    added = np.arange(len(own)) % copies != 0

    def lines(values: NDArray[Any], names: Iterable[str]) -> NDArray[Any]:
        every = values.take(own, axis=1)
        for line in (line for line, name in enumerate(names) if name in negatives.item):
            every[line] = values[line].take(whose)
        return every

    chosen = tuple(
        bag.take(whose if name in negatives.item else own) for bag, name in zip(chunk.bags, layout.bags, strict=True)
    )
    known = (bag for bag, name in zip(chosen, layout.bags, strict=True) if name in negatives.had)
    useless = (item[whose] == item[own]) | had(item[whose], known)
    facets = chunk.facets
    if facets is not None:
        facets = facets._replace(**{name: values[own] if len(values) else values for name, values in facets._asdict().items()})
    return chunk._replace(
        scalar=lines(chunk.scalar, layout.scalar),
        bags=chosen,
        dense=lines(chunk.dense, dense_names(layout, len(chunk.dense))),
        label=np.where(added, np.float32(0), chunk.label.take(own, axis=1)),
        weight=np.where(added & useless, np.float32(0), chunk.weight[own]),
        time=chunk.time[own],
        facets=facets,
        blocks=every(chunk.blocks, lambda one: one.take(own)),
    )


def dense_names(layout: Layout, lines: int) -> list[str]:
    """Return the slot of each line of `Chunk.dense`; what operators offer for features, first in the layout, has none."""
    names = [*layout.continuous, *(name for name, elements in layout.vectors for _ in range(elements))]
    return names[len(names) - lines :]


def drawn(chunk: Chunk, negatives: Negatives, layout: Layout, draw: Draw) -> Rows:
    """Return, for each row of a chunk, rows of items that are added after it, intp[rows, negatives.number].

    Where no row has an item they are the row itself.
    """
    item = chunk.scalar[layout.scalar.index(negatives.item[0])]
    random = np.random.default_rng((draw.seed, int(np.bitwise_xor.reduce(chunk.keys)), draw.pass_number, draw.batch))
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
