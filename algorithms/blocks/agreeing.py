"""Histories of which an example sees the elements that agree with its target: they are chosen before a batch's rows are pulled,
so that a batch has the features of these alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import BatchWindow, Cells, Codes
from .histories import Histories, History
from .searched import Places, SearchedSpans

Agree = Callable[[SearchedSpans, Codes], Places]
"""(spans, int32[rows], what has to agree) -> int64[rows, most], the places of what is chosen, ascending, and -1 behind them."""


class AgreeingSpans(NamedTuple):
    """The spans of a chunk, and what chooses of them; see InChunk.

    Attributes:
        spans: of the same rows.
        wanted: int32[rows], the code that an element must have; ABSENT: none has it.
        agree: chooses; most: so many elements of an example at most.
        kept: what was chosen for batches whose rows are still to be found.
    """

    spans: SearchedSpans
    wanted: Codes
    agree: Agree
    most: int
    kept: dict[tuple[int, int], Histories]

    def take(self, rows: NDArray[np.intp]) -> AgreeingSpans:
        """See InChunk."""
        return self._replace(spans=self.spans.take(rows), wanted=self.wanted.take(rows), kept={})

    def coded(self, codes: Codes) -> AgreeingSpans:
        """See InChunk."""
        return self._replace(spans=self.spans.coded(codes), wanted=codes.take(self.wanted, mode="wrap"), kept={})

    def chosen(self, start: int, stop: int) -> Histories:
        """Return what examples see."""
        rows = np.arange(start, stop)
        spans = self.spans.take(rows)
        places = self.agree(spans, self.wanted[start:stop])
        there = places >= 0
        codes = [codes.take(local.take(places[there])) for local, codes in zip(spans.local, spans.codes, strict=True)]
        return Histories(np.stack(codes), np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int64), self.most)

    def features(self, start: int, stop: int) -> tuple[Codes, Codes]:
        """See InChunk."""
        self.kept[start, stop] = found = self.chosen(start, stop)
        return found.features(0, stop - start)

    def cut(self, window: BatchWindow, rows: Codes) -> History:
        """See InChunk."""
        found = self.kept.pop((window.start, window.stop), None) or self.chosen(window.start, window.stop)
        return found.cut(window._replace(start=0, stop=window.stop - window.start), rows)

    def cells(self) -> list[Cells]:
        """See InChunk."""
        return self.chosen(0, len(self.wanted)).cells()
