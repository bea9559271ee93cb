"""Pairs of items as features: each item of a row's history with the row's item."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...platform.ps._native import unique
from ...platform.reserved import INTERCEPT_NUMBER
from ..augment import Augment, Draw, Prepare
from ..chunk import ABSENT, Bag, Chunk
from ..inputs import Layout

if TYPE_CHECKING:
    from ..learns import Online, Packaged, Solved
    from ..over_graph import Graph

PAIRS, PAIRS_NUMBER = "(pairs)", 0xFFFD
"""The slot of pairs that stand beside the slots that they are made of, and its number, before the tree's."""

HALF = np.uint64(32)
CODES = np.int64(1 << 31)  # more than there are of a chunk
UPPER = np.uint64(0xFFFFFFFF00000000)
LOWER = ~UPPER
LARGEST_TABLE = 1 << 28  # bytes
SHORT = 8
"""Items of a history whose pairs count whole; of a longer one of n items each counts sqrt(SHORT / n)."""

Keys = NDArray[np.uint64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs(Augment):
    """An item, and what was had before, which an algorithm learns as pairs: features of their own, in place of both slots, or
    beside all slots, as those of a further multi-valued one.

    Of rows that other augments add, pairs that no row of the chunk has make no features: what never went together needs no
    weight against it. Pairs of a long history count less, so that an update moves its score no further than that of a short
    one; for one user that does not change how items are ranked.

    Attributes:
        item, history: where the slots stand among the categorical and among the multi-valued ones.
        beside: the slots stay, and pairs are of the slot PAIRS; a row's are the last of its multi-valued slots.
        alone: a prediction is the logistic function of the intercept plus their weights in the table `weights`, so that items
            are ranked by a product of sparse matrices.
    """

    item: int
    history: int
    beside: bool = False
    alone: bool = False

    @property
    def scores(self) -> bool:
        """See Augment."""
        return True

    def prepare(self, chunk: Chunk, layout: Layout, draw: Draw) -> Prepare:
        """See Augment."""
        known = functools.cache(lambda: KnownPairs(chunk, self))

        def prepared(piece: Chunk, start: int, stop: int) -> Chunk:
            copies = len(piece.weight) // max(1, stop - start)
            return paired(piece, self, copies, known() if copies > 1 else None)

        return prepared


def pairs_of(learns: Online | Solved | Packaged | Graph) -> tuple[Pairs, ...]:
    """Return the pairs that an algorithm learns."""
    return tuple(augment for augment in learns.augment if isinstance(augment, Pairs))


def pair_keys(items: Keys, had: Keys) -> Keys:
    """Return the keys of pairs: the upper half of the item's key, then the upper half of the key of what was had."""
    return (items & UPPER) | (had >> HALF)


def shares(lengths: Numbers) -> NDArray[np.float32]:
    """Return what each pair of a history counts."""
    found: NDArray[np.float32] = np.sqrt(SHORT / np.maximum(lengths, SHORT)).astype(np.float32)
    return found


def paired(chunk: Chunk, pairs: Pairs, copies: int = 1, known: KnownPairs | None = None) -> Chunk:
    """Return a chunk whose rows have pairs instead of an item and a history, and the intercept, or pairs beside all they have.

    Args:
        copies: so many rows stand one after the other for each row of the data: itself, then the rows of items not taken.
        known: what rows of the data have; added rows have no others, as what never went together needs no weight against it.
    """
    rows, joined, kept = joined_with(chunk, pairs)
    if known is not None:
        kept &= (rows % copies == 0) | known.has(joined)
    distinct, inverse = unique(joined[kept].view(np.uint64))
    about, had = np.divmod(distinct.view(np.int64), CODES)
    keys = pair_keys(chunk.keys[about], chunk.keys[had])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(chunk.weight)))]).astype(np.int64)
    share = shares(np.diff(chunk.bags[pairs.history].offsets))
    bag = Bag(inverse, (chunk.bags[pairs.history].weights * share[rows])[kept], offsets)
    if pairs.beside:
        chunk, codes = chunk.with_features(keys, np.full(len(keys), PAIRS_NUMBER, np.uint16))
        return chunk._replace(bags=(*chunk.bags, bag._replace(codes=codes[bag.codes])))
    intercept = np.flatnonzero(chunk.slots == INTERCEPT_NUMBER)
    return chunk._replace(
        keys=np.concatenate([keys, chunk.keys[intercept]]),
        slots=np.concatenate([chunk.slots[had], chunk.slots[intercept]]),
        scalar=np.full((1, len(chunk.weight)), len(keys), np.int32),
        bags=(bag,),
    )


class KnownPairs:
    """The pairs that some row of a chunk has: a table of both items, or a list to search where that is too large."""

    def __init__(self, chunk: Chunk, pairs: Pairs) -> None:
        _, joined, kept = joined_with(chunk, pairs)
        about, had = np.divmod(joined[kept], CODES)
        self._items, self._had = ranks(about, len(chunk.keys)), ranks(had, len(chunk.keys))
        self._columns = int(self._had.max(initial=0)) + 1
        self._ascending, self._table = None, np.zeros(0, np.bool_)
        if (size := (int(self._items.max(initial=0)) + 1) * self._columns) <= LARGEST_TABLE:
            self._table = np.zeros(size, np.bool_)
            self._table[self._items[about] * self._columns + self._had[had]] = True
        else:
            self._ascending = np.unique(joined[kept])

    def has(self, joined: Numbers) -> NDArray[np.bool_]:
        """Return which pairs, numbered as `joined_with` numbers them, are known."""
        if self._ascending is None:
            about, had = np.divmod(joined, CODES)
            found: NDArray[np.bool_] = self._table[self._items[about] * self._columns + self._had[had]]
        else:
            at = np.minimum(np.searchsorted(self._ascending, joined), len(self._ascending) - 1)
            found = self._ascending[at] == joined
        return found


def ranks(codes: Numbers, num_codes: int) -> Numbers:
    """Return a rank from 1 on for each code that there is, 0 for others: int64[num_codes]."""
    seen = np.zeros(num_codes, np.bool_)
    seen[codes] = True
    numbers: Numbers = np.where(seen, np.cumsum(seen), 0)
    return numbers


def joined_with(chunk: Chunk, pairs: Pairs) -> tuple[NDArray[np.intp], Numbers, NDArray[np.bool_]]:
    """Return, of each item of a history, its row, the number of its pair with the row's item, and whether the two make one."""
    item, history = chunk.scalar[pairs.item], chunk.bags[pairs.history]
    rows = np.repeat(np.arange(len(item)), np.diff(history.offsets))
    about = item[rows]
    joined = about.astype(np.int64) * CODES + history.codes
    return rows, joined, (history.codes != about) & (about != ABSENT)
