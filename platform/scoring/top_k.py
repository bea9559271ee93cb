"""Top-k: the k highest scores of each row, found block by block, so that no row's scores are held all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 2048
"""Items whose scores are computed and compared at once."""

Scores = NDArray[np.float32]
Places = NDArray[np.int64]
Score = Callable[[int, int], Scores]
"""(start, stop) -> the scores of the items between, float32[rows, stop - start], which are its caller's."""


class ExcludedItems(NamedTuple):
    """Items to leave out: pairs of a row and an item's place, in order of places.

    Attributes:
        rows, places: int64[n].
    """

    rows: Places
    places: Places

    @classmethod
    def of(cls, rows: Places, places: Places) -> ExcludedItems:
        """Return them in order; a place below 0 is no item."""
        known = places >= 0
        order = np.argsort(places[known], kind="stable")
        return cls(rows[known][order], places[known][order])

    def hide(self, scores: Scores, start: int, stop: int) -> None:
        """Set the scores of left-out items between start and stop to -inf, in place."""
        first, last = np.searchsorted(self.places, [start, stop])
        scores[self.rows[first:last], self.places[first:last] - start] = -np.inf


class Best:
    """The k best of each row, of the blocks that were added: after the first ones few scores are above the least of a row's
    best, so that what is sorted is a small part of all.

    Attributes:
        scores, places: float32[rows, k] and int64[rows, k], the best first and of equal ones the first; -inf stands for none.
    """

    def __init__(self, rows: int, k: int) -> None:
        self.scores, self.places = np.full((rows, k), -np.inf, np.float32), np.zeros((rows, k), np.int64)

    def add(self, block: Scores, start: int) -> None:
        """Take in the scores of some items, float32[rows, n], the first of which has the place `start`; NaN is none."""
        above = np.flatnonzero((block > self.scores[:, -1:]).ravel())
        if not len(above):
            return
        rows, k = self.scores.shape
        at, place = np.divmod(above, block.shape[1])
        counts = np.bincount(at, minlength=rows)
        column = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        more, theirs = np.full((rows, counts.max()), -np.inf, np.float32), np.zeros((rows, counts.max()), np.int64)
        more[at, column], theirs[at, column] = block[at, place], start + place
        both, places = np.concatenate([self.scores, more], axis=1), np.concatenate([self.places, theirs], axis=1)
        order = np.argsort(-both, axis=1, kind="stable")[:, :k]
        self.scores, self.places = np.take_along_axis(both, order, axis=1), np.take_along_axis(places, order, axis=1)


def best(score: Score, rows: int, items: int, k: int, had: ExcludedItems) -> Best:
    """Return the k best items of each row, without those that are left out."""
    found = Best(rows, k)
    for start in range(0, items, BLOCK):
        block = score(start, min(start + BLOCK, items))
        had.hide(block, start, start + block.shape[1])
        found.add(block, start)
    return found
