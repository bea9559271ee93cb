"""How far labels are from predictions that were made before their rows were learned from, for conformal intervals.

As with calibrators, early predictions come from an unfinished model, so residuals are tallied by octave of the batch's number
in the first pass, and the last two octaves count. Sums are whole numbers, so that no order of batches changes them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ps.transport.checks import refused

if TYPE_CHECKING:
    from ...input.batches import Batch

SHIFT = 16
BINS = 0x7F80
"""A residual's bin is the upper half of its bits as float32, 128 bins for each power of two; infinity is beyond the last."""
SETTLED = 1 << 15

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


class ResidualTally(NamedTuple):
    """Residuals of an octave of batches.

    Attributes:
        bins: int64[k], the bins that have some, ascending; counts: int64[labels, k].
    """

    octave: int
    bins: Ints
    counts: Ints

    def halved(self) -> ResidualTally:
        """Return it with half the weight: what a version takes over from the one that it continues."""
        return sparse(-1, self.bins, self.counts // 2)


def sparse(octave: int, bins: Ints, counts: Ints) -> ResidualTally:
    """Return a tally without bins that have none."""
    some = counts.any(axis=0)
    return ResidualTally(octave, bins[some], counts[:, some])


class Residuals:
    """Tallies residuals while a training goes on; threads may share it.

    Args:
        labels: how many there are.
        before: of each split, how many batches the splits before it have.
    """

    def __init__(self, labels: int, before: Sequence[int]) -> None:
        self._labels, self._before = labels, before
        self._counts: dict[int, Ints] = {}
        self._waiting: list[Floats] = []
        self._octave, self._count = -1, 0
        self._lock = threading.Lock()

    def anew(self) -> Residuals:
        """Return one that has seen nothing."""
        return Residuals(self._labels, self._before)

    def observe(self, batch: Batch, predictions: Floats) -> tuple[int, Floats]:
        """Return what is to be counted of a batch that was not learned from: its octave, and float32[labels, n]."""
        octave = (self._before[batch.id.split] + batch.id.batch + 1).bit_length() - 1
        return octave, np.abs(batch.label[:, : batch.examples] - predictions)

    def see(self, octave: int, residuals: Floats) -> None:
        """Count residuals."""
        with self._lock:
            if octave != self._octave or self._count >= SETTLED:
                self._settle()
                self._octave = octave
            self._waiting.append(residuals)
            self._count += residuals.shape[1]

    def _settle(self) -> None:
        """Count what waits: many small batches at once."""
        if not self._waiting:
            return
        residuals = np.ascontiguousarray(np.concatenate(self._waiting, axis=1), np.float32)
        self._waiting, self._count = [], 0
        counts = self._of(self._octave)
        for own, line in zip(counts, residuals.view(np.uint32) >> SHIFT, strict=True):
            own += np.bincount(line[line < BINS], minlength=BINS)

    def _of(self, octave: int) -> Ints:
        """Return the counts of an octave; those before the one before it are of no use any more, whoever counted them."""
        if octave not in self._counts:
            self._counts[octave] = np.zeros((self._labels, BINS), np.int64)
            newest = max(self._counts)
            self._counts = {number: counts for number, counts in self._counts.items() if number >= newest - 1}
        return self._counts.get(octave, np.zeros((self._labels, BINS), np.int64))

    def tallies(self) -> tuple[ResidualTally, ...]:
        """Return what was counted."""
        with self._lock:
            self._settle()
            return tuple(sparse(octave, np.arange(BINS), counts) for octave, counts in self._counts.items())

    def take(self, other: tuple[ResidualTally, ...]) -> None:
        """Merge another's tallies.

        Raises:
            TrainingError: they are not tallies of these labels.
        """
        for one in other:
            good = one.counts.shape == (self._labels, len(one.bins)) and ((one.bins >= 0) & (one.bins < BINS)).all()
            if not good or (np.diff(one.bins) <= 0).any():
                raise refused("the tallies of residuals", f"{self._labels} lines of {BINS} bins", one.counts.shape)
        with self._lock:
            self._settle()
            for one in other:
                self._of(one.octave)[:, one.bins] += one.counts

    def known(self, before: ResidualTally | None) -> ResidualTally:
        """Return the residuals of the last two octaves, and what the continued version knew."""
        whole = np.zeros((self._labels, BINS), np.int64)
        for one in (*self.tallies(), *(() if before is None else (before,))):
            whole[:, one.bins] += one.counts
        return sparse(-1, np.arange(BINS), whole)


def half_width(bins: Ints, counts: Ints, level: float) -> float:
    """Return how far on both sides of a prediction labels of new rows lie in that share of cases at least: of n residuals the
    one of rank ceil((n + 1) level), rounded up to the end of its bin; infinite where there are too few.

    Source: Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, "Distribution-Free Predictive Inference for Regression", JASA 2018.
    """
    total = int(counts.sum())
    rank = math.ceil((total + 1) * level)
    if rank > total:
        return math.inf
    at = int(np.searchsorted(np.cumsum(counts), rank))
    return float(np.array([(int(bins[at]) + 1) << SHIFT], np.uint32).view(np.float32)[0])
