"""What a calibrator is fitted from: tallies of predictions that were made before their rows were learned from.

Early predictions come from an unfinished model, so tallies are kept by octave of the batch's number in the first pass (1, 2 to
3, 4 to 7, ...), and the last two octaves are fitted: half to three quarters of the pass. Predictions of an octave are
measured after the calibrator of the octaves before it, which has seen none of their labels. Sums are whole numbers, so that no
order of batches changes them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.calibration import (
    BINS,
    HIGHEST,
    IDENTITY,
    LIMIT,
    LOWEST,
    Biases,
    Bins,
    RisingCurve,
    ValueSums,
    biases_of,
    curve_of,
)
from ...ps._native import calibrate
from ...ps.transport.checks import refused

if TYPE_CHECKING:
    from ...input.batches import Batch

UNIT = 1 << 32
"""Sums of predictions are whole multiples of 1 / UNIT."""
ROWS = 0
SETTLED = 1 << 15

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

NO_KEYS = np.empty(0, np.uint64)


class OctaveTally(NamedTuple):
    """Rows of an octave of batches.

    Attributes:
        bins: int64[labels, 3, BINS], by log odds: rows, labels, and predictions in UNITs.
        keys: uint64[k], of the values of the column that has biases, ascending.
        values: int64[labels, 3, k], by value; predictions are those after g as it was then.
    """

    octave: int
    bins: Ints
    keys: NDArray[np.uint64]
    values: Ints

    def halved(self) -> OctaveTally:
        """Return it with half the weight: what a version takes over from the one that it continues."""
        values = self.values // 2
        some = values[0, ROWS] > 0
        return OctaveTally(-1, self.bins // 2, self.keys[some], values[:, :, some])

    def bins_of(self, label: int) -> Bins:
        """Return the bins of a label."""
        rows, labels, predictions = self.bins[label].astype(np.float64)
        return Bins(rows, labels, predictions / UNIT)

    def values_of(self, label: int) -> ValueSums:
        """Return the sums of a label by value."""
        rows, labels, predictions = self.values[label].astype(np.float64)
        return ValueSums(self.keys, rows, labels, predictions / UNIT)


class Fitted(NamedTuple):
    """What a label's predictions become; see Calibrator."""

    curve: RisingCurve = IDENTITY
    biases: Biases = Biases()

    @property
    def lines(self) -> tuple[Floats, Floats]:
        """The curve as a line for each bin, by its ends: its height and its slope. Metrics need no more."""
        ends = (np.arange(BINS + 1) / (BINS / 2) - 1) * LIMIT
        heights = self.curve.of(ends)
        slopes = np.diff(heights) / np.diff(ends)
        return (heights[:-1] - slopes * ends[:-1]).astype(np.float32), slopes.astype(np.float32)


class Calibration(NamedTuple):
    """What is asked of it.

    Attributes:
        method: of curve_of.
        line: the place among the lines of a batch of the column that has biases; None: none has.
        labels: how many there are.
        late: an example comes with 0, and once more with 1 where that is its label.
        before: what the continued version knew, halved; None where there is none.
    """

    method: str
    line: int | None
    labels: int
    late: bool
    before: OctaveTally | None


class SeenRows(NamedTuple):
    """What is counted of a batch that was predicted.

    Attributes:
        bins: int64[labels, 3, BINS]; see OctaveTally.
        keys: uint64[k], of the values of the column that has biases, each once.
        values: int64[labels, 3, k].
    """

    octave: int
    bins: Ints
    keys: NDArray[np.uint64]
    values: Ints


class Octave:
    """What is counted of an octave."""

    def __init__(self, number: int, labels: int) -> None:
        self.number = number
        self._bins, self._keys = np.zeros((labels, 3, BINS), np.int64), np.empty(0, np.uint64)
        self._values = np.zeros((labels, 3, 0), np.int64)
        self._waiting: list[tuple[NDArray[np.uint64], Ints]] = []
        self._count = 0

    def add(self, one: OctaveTally | SeenRows) -> None:
        """Take in what was counted of some rows."""
        self._bins += one.bins
        if len(one.keys):
            self._waiting.append((one.keys, one.values))
            self._count += len(one.keys)
        if self._count >= SETTLED:
            self._settle()

    def tally(self) -> OctaveTally:
        """Return what was counted."""
        self._settle()
        return OctaveTally(self.number, self._bins.copy(), self._keys, self._values)

    def _settle(self) -> None:
        """Add up by value what waits: many small batches at once."""
        if not self._waiting:
            return
        keys, values = zip((self._keys, self._values), *self._waiting, strict=True)
        self._waiting, self._count = [], 0
        every = np.concatenate(keys)
        order = np.argsort(every, kind="stable")
        every = every[order]
        starts = np.flatnonzero(np.append(True, every[1:] != every[:-1]))
        self._keys = every[starts]
        self._values = np.add.reduceat(np.concatenate(values, axis=-1)[:, :, order], starts, axis=-1)


class Calibrating:
    """Learns calibrators while a training goes on; threads may share it.

    Args:
        before: of each split, how many batches the splits before it have.
    """

    def __init__(self, asked: Calibration, before: Sequence[int]) -> None:
        self._asked, self._before = asked, before
        self._octaves: dict[int, Octave] = {}
        self._known: dict[int, tuple[tuple[Fitted, ...], list[tuple[Floats, Floats]]]] = {}
        self._lock = threading.Lock()

    def anew(self) -> Calibrating:
        """Return one that has seen nothing."""
        return Calibrating(self._asked, self._before)

    def observe(self, batch: Batch, predictions: Floats) -> tuple[Floats, SeenRows | None]:
        """Return a batch's predictions, float32[labels, n], after the calibrator of earlier octaves, and what is to be counted
        of it; None where it is counted, or may have been learned from.
        """
        number = self._before[batch.id.split] + batch.id.batch + 1
        octave = number.bit_length() - 1 if batch.id.pass_number == 0 else max(self._octaves, default=-1) + 1
        with self._lock:
            known, lines = self._fitted_before(octave)
        counts = batch.id.pass_number == 0 and batch.fresh and not batch.counted
        codes, keys = (None, NO_KEYS) if self._asked.line is None else self._values_in(batch, self._asked.line)
        bins, values = (np.zeros((len(known), 3, size), np.int64) for size in (BINS, len(keys)))
        shown = np.empty((len(known), batch.examples), np.float32)
        for label, (one, (heights, slopes)) in enumerate(zip(known, lines, strict=True)):
            shown[label] = calibrate(
                np.ascontiguousarray(batch.label[label, : batch.examples]),
                np.ascontiguousarray(predictions[label]),
                heights,
                slopes,
                codes,
                one.biases.of(keys).astype(np.float32),
                LIMIT,
                LOWEST,
                HIGHEST,
                self._asked.late,
                bins[label] if counts else None,
                values[label] if counts else None,
            )
        some = keys != 0
        return shown, SeenRows(octave, bins, keys[some], values[:, :, some]) if counts else None

    def _values_in(self, batch: Batch, line: int) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """Return of each example the place of its value, and the keys of the values that occur, 0 for none."""
        codes, every = batch.codes(line), np.append(batch.keys, np.uint64(0))
        there = np.flatnonzero(np.bincount(codes, minlength=len(every)))
        place = np.empty(len(every), np.int32)
        place[there] = np.arange(len(there))
        return place[codes], every[there]

    def see(self, seen: SeenRows) -> None:
        """Count rows."""
        with self._lock:
            self._of(seen.octave).add(seen)

    def add(self, one: OctaveTally) -> None:
        """Merge another's tally."""
        with self._lock:
            self._of(one.octave).add(one)

    def _of(self, octave: int) -> Octave:
        if octave not in self._octaves:
            self._octaves[octave] = Octave(octave, self._asked.labels)
        return self._octaves[octave]

    def _fitted_before(self, octave: int) -> tuple[tuple[Fitted, ...], list[tuple[Floats, Floats]]]:
        if octave not in self._known:
            found = fitted(self._asked, self._last(octave - 1))
            self._known[octave] = found, [one.lines for one in found]
        return self._known[octave]

    def _last(self, newest: int) -> OctaveTally:
        """Return the tallies of two octaves, and what the continued version knew."""
        whole = Octave(newest, self._asked.labels)
        for number in (newest - 1, newest):
            if number in self._octaves:
                whole.add(self._octaves[number].tally())
        if self._asked.before is not None:
            whole.add(self._asked.before)
        return whole.tally()

    def fitted(self) -> tuple[OctaveTally, tuple[Fitted, ...]]:
        """Return what is known at the end, and the calibrators of labels that it makes."""
        with self._lock:
            known = self._last(max(self._octaves, default=-1))
        return known, fitted(self._asked, known)

    def tallies(self) -> tuple[OctaveTally, ...]:
        """Return what was counted."""
        with self._lock:
            return tuple(one.tally() for one in self._octaves.values())

    def take(self, other: tuple[OctaveTally, ...]) -> None:
        """Merge another's tallies.

        Raises:
            TrainingError: they are not tallies of these labels.
        """
        shape = (self._asked.labels, 3, BINS)
        for one in other:
            if one.bins.shape != shape or one.values.shape != (*shape[:2], len(one.keys)):
                raise refused("the tallies of a calibration", str(shape), (one.bins.shape, one.values.shape))
        for one in other:
            self.add(one)

    def whole(self, label: int) -> Bins:
        """Return the bins of all rows of the first pass, as they were predicted."""
        with self._lock:
            bins = sum((one.tally().bins[label] for one in self._octaves.values()), np.zeros((3, BINS), np.int64))
        rows, labels, predictions = bins.astype(np.float64)
        return Bins(rows, labels, predictions / UNIT)


def fitted(asked: Calibration, known: OctaveTally) -> tuple[Fitted, ...]:
    """Return the calibrators of labels that tallies make."""
    found = []
    for label in range(asked.labels):
        curve = curve_of(known.bins_of(label), asked.method)
        found.append(Fitted(curve, Biases() if asked.line is None else biases_of(known.values_of(label))))
    return tuple(found)
