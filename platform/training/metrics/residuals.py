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
"""A residual's bin is the upper half of its bits as float32, 128 bins for each power of two; infinity is beyond the last. Those
below 0 have -1 less the bin of their size."""
SETTLED = 1 << 15
ROUNDED = 1e-9
"""What products of shares and counts may be above the whole number that they are."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


class ResidualTally(NamedTuple):
    """Residuals of an octave of batches.

    Attributes:
        bins: int64[k], the bins that have some, ascending; counts: int64[labels, k].
        signed: residuals are labels less predictions, and not how far apart both are.
    """

    octave: int
    bins: Ints
    counts: Ints
    signed: bool = False

    def halved(self) -> ResidualTally:
        """Return it with half the weight: what a version takes over from the one that it continues."""
        return sparse(-1, self.bins, self.counts // 2, self.signed)

    @property
    def mirrored(self) -> ResidualTally:
        """The tally of predictions less labels."""
        return self._replace(bins=-1 - self.bins[::-1], counts=self.counts[:, ::-1])

    @property
    def sides(self) -> tuple[ResidualTally, ...]:
        """What bounds are cut from: one for both where distances are known; else one for the lower, one for the upper."""
        return (self.mirrored, self) if self.signed else (self,)


def sparse(octave: int, bins: Ints, counts: Ints, signed: bool) -> ResidualTally:
    """Return a tally without bins that have none."""
    some = counts.any(axis=0)
    return ResidualTally(octave, bins[some], counts[:, some], signed)


class Residuals:
    """Tallies residuals while a training goes on; threads may share it.

    Args:
        labels: how many there are.
        before: of each split, how many batches the splits before it have.
        signed: also whether labels are above predictions.
    """

    def __init__(self, labels: int, before: Sequence[int], signed: bool) -> None:
        self._labels, self._before, self._signed = labels, before, signed
        self._least = -BINS if signed else 0
        self._counts: dict[int, Ints] = {}
        self._waiting: list[Floats] = []
        self._octave, self._count = -1, 0
        self._lock = threading.Lock()

    def anew(self) -> Residuals:
        """Return one that has seen nothing."""
        return Residuals(self._labels, self._before, self._signed)

    def observe(self, batch: Batch, predictions: Floats) -> tuple[int, Floats]:
        """Return what is to be counted of a batch that was not learned from: its octave, and float32[labels, n]."""
        octave = (self._before[batch.id.split] + batch.id.batch + 1).bit_length() - 1
        apart = batch.label[:, : batch.examples] - predictions
        return octave, apart if self._signed else np.abs(apart)

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
        for own, line in zip(counts, residuals, strict=True):
            bins = (np.abs(line) if self._signed else line).view(np.uint32) >> SHIFT
            some = bins < BINS
            place = np.where(line < 0, BINS - 1 - bins, BINS + bins)[some] if self._signed else bins[some]
            own += np.bincount(place, minlength=len(own))

    def _of(self, octave: int) -> Ints:
        """Return the counts of an octave; those before the one before it are of no use any more, whoever counted them."""
        if octave not in self._counts:
            self._counts[octave] = self._none()
            newest = max(self._counts)
            self._counts = {number: counts for number, counts in self._counts.items() if number >= newest - 1}
        return self._counts.get(octave, self._none())

    def _none(self) -> Ints:
        return np.zeros((self._labels, BINS - self._least), np.int64)

    def tallies(self) -> tuple[ResidualTally, ...]:
        """Return what was counted."""
        with self._lock:
            self._settle()
            bins = np.arange(self._least, BINS)
            return tuple(sparse(octave, bins, counts, self._signed) for octave, counts in self._counts.items())

    def take(self, other: tuple[ResidualTally, ...]) -> None:
        """Merge another's tallies.

        Raises:
            TrainingError: they are not tallies of these labels.
        """
        for one in other:
            inside = ((one.bins >= self._least) & (one.bins < BINS)).all() and one.signed == self._signed
            if one.counts.shape != (self._labels, len(one.bins)) or not inside or (np.diff(one.bins) <= 0).any():
                expected = f"{self._labels} lines of {BINS - self._least} bins"
                raise refused("the tallies of residuals", expected, one.counts.shape)
        with self._lock:
            self._settle()
            for one in other:
                self._of(one.octave)[:, one.bins - self._least] += one.counts

    def known(self) -> ResidualTally:
        """Return the residuals of the last two octaves."""
        return together(*self.tallies()) or sparse(-1, np.arange(0), self._none()[:, :0], self._signed)


def together(*tallies: ResidualTally) -> ResidualTally | None:
    """Return the sum of tallies of the same labels; None of none."""
    if not tallies:
        return None
    bins = np.unique(np.concatenate([one.bins for one in tallies]))
    counts = np.zeros((len(tallies[0].counts), len(bins)), np.int64)
    for one in tallies:
        counts[:, np.searchsorted(bins, one.bins)] += one.counts
    return sparse(-1, bins, counts, tallies[0].signed)


def bin_of(bins: Ints, counts: Ints, level: float) -> int | None:
    """Return the bin of that one of n residuals that has rank ceil((n + 1) level), which bounds those of new rows in that
    share of cases at least; None where there are too few.

    Source: Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, "Distribution-Free Predictive Inference for Regression", JASA 2018.
    """
    total = int(counts.sum())
    rank = max(1, math.ceil((total + 1) * level - ROUNDED))
    return None if rank > total else int(bins[np.searchsorted(np.cumsum(counts), rank)])


def end_of(bin: int) -> float:
    """Return the upper end of a bin."""
    size = np.array([(bin + 1 if bin >= 0 else -1 - bin) << SHIFT], np.uint32).view(np.float32)[0]
    return float(size if bin >= 0 else -size)
