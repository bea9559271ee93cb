"""What a calibrator is fitted from: tallies of predictions that were made before their rows were learned from.

Early predictions come from an unfinished model, so tallies are kept by octave of the batch's number in the first pass (1, 2 to
3, 4 to 7, ...), and the last two octaves are fitted: half to three quarters of the pass. Predictions of an octave are shown, and
measured, after the calibrator of the octaves before it, which has seen none of their labels. Sums are whole numbers, so that no
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
    IDENTITY,
    LIMIT,
    Biases,
    Bins,
    RisingCurve,
    ValueSums,
    biases_of,
    curve_of,
    log_odds,
    sigmoid,
)
from ...ps.transport.checks import refused

if TYPE_CHECKING:
    from ...input.batches import Batch

UNIT = 1 << 32
"""Sums of predictions are whole multiples of 1 / UNIT."""
ROWS, LABELS, PREDICTIONS = range(3)
SETTLED = 1 << 16

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


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


class ValueTally:
    """Sums by key, settled now and then."""

    def __init__(self, labels: int) -> None:
        self.keys, self.sums = np.empty(0, np.uint64), np.zeros((labels, 3, 0), np.int64)
        self._waiting: list[tuple[NDArray[np.uint64], Ints]] = []
        self._count = 0

    def add(self, keys: NDArray[np.uint64], sums: Ints) -> None:
        """Take in int64[labels, 3, n] of n keys."""
        self._waiting.append((keys, sums))
        self._count += len(keys)
        if self._count > max(SETTLED, len(self.keys)):
            self.settle()

    def settle(self) -> None:
        """Count what waits."""
        if self._waiting:
            keys = np.concatenate([self.keys, *(keys for keys, _ in self._waiting)])
            sums = np.concatenate([self.sums, *(sums for _, sums in self._waiting)], axis=2)
            self.keys, place = np.unique(keys, return_inverse=True)
            self.sums = np.zeros((*sums.shape[:2], len(self.keys)), np.int64)
            for own, added in zip(self.sums, sums, strict=True):
                np.add.at(own.T, place, added.T)
            self._waiting, self._count = [], 0


class Octave:
    """What is counted of an octave."""

    def __init__(self, number: int, labels: int) -> None:
        self.number = number
        self.bins, self.values = np.zeros((labels, 3, BINS), np.int64), ValueTally(labels)

    def add(self, one: OctaveTally) -> None:
        """Merge another's tally."""
        self.bins += one.bins
        self.values.add(one.keys, one.values)

    def tally(self) -> OctaveTally:
        """Return what was counted."""
        self.values.settle()
        return OctaveTally(self.number, self.bins.copy(), self.values.keys, self.values.sums)


class Calibrating:
    """Learns calibrators while a training goes on; threads may share it.

    Args:
        before: of each split, how many batches the splits before it have.
    """

    def __init__(self, asked: Calibration, before: Sequence[int]) -> None:
        self._asked, self._before = asked, before
        self._octaves: dict[int, Octave] = {}
        self._known: dict[int, tuple[Fitted, ...]] = {}
        self._lock = threading.Lock()

    def anew(self) -> Calibrating:
        """Return one that has seen nothing."""
        return Calibrating(self._asked, self._before)

    def observe(self, batch: Batch, predictions: Floats) -> tuple[Floats, OctaveTally | None]:
        """Return a batch's predictions, float32[labels, n], after the calibrator of earlier octaves, and what it adds to the
        tallies; None where it is counted, or may have been learned from.
        """
        number = self._before[batch.id.split] + batch.id.batch + 1
        octave = number.bit_length() - 1 if batch.id.pass_number == 0 else max(self._octaves, default=-1) + 1
        with self._lock:
            fitted = self._fitted_before(octave)
        codes, scores = None if self._asked.line is None else batch.codes(self._asked.line), log_odds(predictions)
        after = np.stack([one.curve.of(line) for one, line in zip(fitted, scores, strict=True)])
        seen = None
        if batch.id.pass_number == 0 and batch.fresh and not batch.counted:
            seen = self._tally(octave, batch, codes, scores, predictions, sigmoid(after))
        if codes is not None:
            keys = np.append(batch.keys, np.uint64(0))[codes]
            after += np.stack([one.biases.of(keys) for one in fitted])
        return sigmoid(after).astype(np.float32), seen

    def _tally(
        self,
        octave: int,
        batch: Batch,
        codes: NDArray[np.int32] | None,
        scores: NDArray[np.float64],
        predictions: Floats,
        after: NDArray[np.float64],
    ) -> OctaveTally:
        place = np.clip((scores / LIMIT + 1) * (BINS / 2), 0, BINS - 1).astype(np.int64)
        bins = np.empty((self._asked.labels, 3, BINS), np.int64)
        sums = np.zeros((self._asked.labels, 3, 0 if codes is None else len(batch.keys)), np.int64)
        for label, labels in enumerate(batch.label[:, : batch.examples]):
            first = (labels <= 0).astype(np.float64) if self._asked.late else None
            bins[label] = counted(place[label], labels, predictions[label], first, BINS)
            if codes is not None:
                sums[label] = counted(codes, labels, after[label], first, len(batch.keys) + 1)[:, :-1]
        some = np.flatnonzero(sums.any(axis=(0, 1)))
        return OctaveTally(octave, bins, batch.keys[some] if len(some) else np.empty(0, np.uint64), sums[:, :, some])

    def add(self, seen: OctaveTally) -> None:
        """Count what a batch adds, or several."""
        with self._lock:
            self._octaves.setdefault(seen.octave, Octave(seen.octave, self._asked.labels)).add(seen)

    def _fitted_before(self, octave: int) -> tuple[Fitted, ...]:
        if octave not in self._known:
            self._known[octave] = fitted(self._asked, self._last(octave - 1))
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
            bins = sum((one.bins[label] for one in self._octaves.values()), np.zeros((3, BINS), np.int64))
        rows, labels, predictions = bins.astype(np.float64)
        return Bins(rows, labels, predictions / UNIT)


def counted(
    place: NDArray[np.integer], labels: Floats, predictions: NDArray[np.floating], first: NDArray[np.float64] | None, size: int
) -> Ints:
    """Return int64[3, size]: by place rows, labels, and predictions in UNITs.

    Args:
        first: 1 for examples that come for the first time, else 0; None: all do.
    """
    whole = np.rint(predictions.astype(np.float64) * UNIT)
    rows = np.bincount(place, first, size)
    sums = np.bincount(place, labels > 0, size), np.bincount(place, whole if first is None else whole * first, size)
    return np.stack([rows, *sums]).astype(np.int64)


def fitted(asked: Calibration, known: OctaveTally) -> tuple[Fitted, ...]:
    """Return the calibrators of labels that tallies make."""
    found = []
    for label in range(asked.labels):
        curve = curve_of(known.bins_of(label), asked.method)
        found.append(Fitted(curve, Biases() if asked.line is None else biases_of(known.values_of(label))))
    return tuple(found)
