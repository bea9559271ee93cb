"""Histories that are searched: spans of elements that stay where they are, of which a batch gets those that matter.

A chunk has them in the place of `Histories`, and a batch in the place of `History` until its rows are pulled; then a search by
these rows (algorithms/layers/history_search.py) makes a History of what it chose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import ABSENT, Array, BatchWindow, Cells, Codes, Offsets

SEARCHED = "searched"
"""The role of slots whose histories are searched."""
Places = NDArray[np.int64]


class SpanElements(NamedTuple):
    """The elements of one slot as spans, as its kind makes them of a column.

    Attributes:
        local: int32[n], the elements of all spans, places in `codes`.
        codes: int32[m], the code of each; ABSENT where it is NULL.
        begin, end: int64[rows], the elements of each row.
        lengths: int64[rows], how many each row has; the last of them are in its span.
    """

    local: Codes
    codes: Codes
    begin: Places
    end: Places
    lengths: NDArray[np.int64]


def marked(local: Codes, begin: Places, end: Places, count: int) -> Codes:
    """Return which span has each of `count` codes first, -1 where none has, int32[count].

    Args:
        begin, end: spans that do not overlap, in order of the elements.
    """
    found = np.full(count, -1, np.int32)
    for span in range(len(begin) - 1, -1, -1):
        found[local[begin[span] : end[span]]] = span
    return found


class SearchedSpans(NamedTuple):
    """The aligned spans of one group of slots in a chunk; see InChunk.

    Attributes:
        local, codes: of each field, see SpanElements.
        begin, end: int64[rows].
        length: the most elements that an example has.
        mark: tells which span has each code first, see `marked`.
    """

    local: tuple[Codes, ...]
    codes: tuple[Codes, ...]
    begin: Places
    end: Places
    length: int
    mark: Callable[[Codes, Places, Places, int], Codes] = marked

    def take(self, rows: NDArray[np.intp]) -> SearchedSpans:
        """See InChunk."""
        return self._replace(begin=self.begin.take(rows), end=self.end.take(rows))

    def coded(self, codes: Codes) -> SearchedSpans:
        """See InChunk."""
        return self._replace(codes=tuple(codes.take(own, mode="wrap") for own in self.codes))

    def features(self, start: int, stop: int) -> tuple[Codes, Codes]:
        """See InChunk: each feature of the examples' spans once, of the first that has it."""
        found = [(codes.take(used), owners) for codes, used, owners in self._used(start, stop)]
        return np.concatenate([codes for codes, _ in found]), np.concatenate([owners for _, owners in found])

    def cut(self, window: BatchWindow, rows: Codes) -> SearchedHistory:
        """See InChunk."""
        tables, at = [], 0
        for codes, used, _ in self._used(window.start, window.stop):
            table = np.full(len(codes), window.absent, np.int32)
            table[used] = rows[at : (at := at + len(used))]
            tables.append(table)
        begin, end = np.zeros((2, window.size), np.int64)
        count = window.stop - window.start
        begin[:count], end[:count] = self.begin[window.start : window.stop], self.end[window.start : window.stop]
        return SearchedHistory(self.local, tuple(tables), begin, end, window.absent)

    def cells(self) -> list[Cells]:
        """See InChunk."""
        offsets: Offsets = np.concatenate([[0], np.cumsum(self.end - self.begin)]).astype(np.int64)
        places = np.arange(offsets[-1]) + np.repeat(self.begin - offsets[:-1], self.end - self.begin)
        return [Cells(codes.take(local.take(places)), offsets) for local, codes in zip(self.local, self.codes, strict=True)]

    def _used(self, start: int, stop: int) -> list[tuple[Codes, NDArray[np.intp], Codes]]:
        """Return, of each field, the codes of all elements, which of them examples have, and the first that has each."""
        begin, end, first = merged(self.begin[start:stop], self.end[start:stop])
        found = []
        for local, codes in zip(self.local, self.codes, strict=True):
            owner = self.mark(local, begin, end, len(codes))
            used = np.flatnonzero((owner >= 0) & (codes != ABSENT))
            found.append((codes, used, first.take(owner.take(used)).astype(np.int32)))
        return found


def merged(begin: Places, end: Places) -> tuple[Places, Places, NDArray[np.intp]]:
    """Return spans that do not overlap and have the same elements, and the first of the given ones that is in each."""
    there = np.flatnonzero(end > begin)
    order = there[np.lexsort((-end[there], begin[there]))]
    low, high = begin[order], np.maximum.accumulate(end[order]) if len(order) else end[order]
    starts = np.flatnonzero(np.concatenate([[True], low[1:] > high[:-1]])) if len(order) else order
    stops = high[np.append(starts[1:], len(order)) - 1] if len(order) else high
    return low[starts], stops, np.minimum.reduceat(order, starts) if len(order) else order


class SearchedHistory(NamedTuple):
    """The spans of a batch whose rows are not pulled yet.

    Attributes:
        local: of each field, int32[n], the elements, places in `tables`.
        tables: of each field, int32[m], the row of each in the batch.
        begin, end: int64[batch].
        absent: the row of what is not there.
    """

    local: tuple[Codes, ...]
    tables: tuple[Codes, ...]
    begin: Places
    end: Places
    absent: int

    @property
    def arrays(self) -> Mapping[str, Array]:
        """See InBatch; what it is has no rows yet."""
        return {}

    def empty(self, batch: int, groups: int) -> SearchedHistory:
        """See InBatch."""
        nothing = np.zeros(batch, np.int64)
        return self._replace(begin=nothing, end=nothing, tables=tuple(np.zeros_like(own) for own in self.tables), absent=0)

    @property
    def rows(self) -> Any:
        """See InBatch."""
        return None

    def with_rows(self, rows: Any) -> SearchedHistory:
        """See InBatch."""
        return self

    def present(self) -> tuple[int, ...]:
        """See InBatch."""
        return len(self.local), len(self.begin), 0

    def scaled(self, share: Any) -> SearchedHistory:
        """See InBatch."""
        return self

    def by_slot(self, share: Any) -> Any:
        """See InBatch."""
        return share.sum(axis=2).T


def spans_of(elements: Sequence[Any]) -> list[SpanElements]:
    """Return elements of arrays as spans, one after the other; those of an image as they are."""
    found = []
    for own in elements:
        if isinstance(own, SpanElements):
            found.append(own)
            continue
        ends = np.cumsum(own.kept)
        known, local = np.unique(own.codes, return_inverse=True)
        found.append(SpanElements(local.astype(np.int32), known.astype(np.int32), ends - own.kept, ends, own.lengths))
    return found
