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
import pyarrow as pa
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
    sigmoid,
)
from ...ps.transport.checks import refused

if TYPE_CHECKING:
    from ...input.batches import Batch

UNIT = 1 << 32
"""Sums of predictions are whole multiples of 1 / UNIT."""
ROWS, LABELS, PREDICTIONS = range(3)
SETTLED = 1 << 15
FLOAT_LOWEST, FLOAT_HIGHEST = np.float32(LOWEST), np.float32(HIGHEST)

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
    """Rows of an octave that were predicted, before they are counted.

    Attributes:
        labels, predictions, after: float32[labels, n]; after: the log odds of g.
        place: int16[labels, n], the bins of predictions.
        keys: uint64[n], of the values of the column that has biases, 0 for none; empty without one.
    """

    octave: int
    labels: Floats
    predictions: Floats
    place: NDArray[np.int16]
    after: Floats
    keys: NDArray[np.uint64]


class Octave:
    """What is counted of an octave."""

    def __init__(self, number: int, labels: int, late: bool) -> None:
        self.number, self._late = number, late
        self._bins, self._keys = np.zeros((labels, 3, BINS), np.int64), np.empty(0, np.uint64)
        self._values = np.zeros((labels, 3, 0), np.int64)
        self._waiting: list[SeenRows] = []
        self._count = 0

    def see(self, seen: SeenRows) -> None:
        """Take in rows."""
        self._waiting.append(seen)
        self._count += seen.labels.shape[1]
        if self._count >= SETTLED:
            self._settle()

    def add(self, one: OctaveTally) -> None:
        """Merge another's tally."""
        self._bins += one.bins
        self._add_values(one.keys, one.values)

    def tally(self) -> OctaveTally:
        """Return what was counted."""
        self._settle()
        return OctaveTally(self.number, self._bins.copy(), self._keys, self._values)

    def _settle(self) -> None:
        """Count what waits: many small batches at once."""
        if not self._waiting:
            return
        labels, predictions, place, after, keys = (
            np.concatenate(parts, axis=-1) for parts in zip(*(one[1:] for one in self._waiting), strict=True)
        )
        self._waiting, self._count = [], 0
        coded = pa.array(keys).dictionary_encode()
        codes, values = coded.indices.to_numpy(), coded.dictionary.to_numpy()
        sums = np.empty((len(labels), 3, len(values)), np.int64)
        for label, own in enumerate(labels):
            first = (own <= 0).astype(np.float64) if self._late else None
            self._bins[label] += counted(place[label], own, predictions[label], first, BINS)
            if len(keys):
                sums[label] = counted(codes, own, sigmoid(after[label].astype(np.float64)), first, len(values))
        some = values != 0
        self._add_values(values[some], sums[:, :, some])

    def _add_values(self, keys: NDArray[np.uint64], sums: Ints) -> None:
        if len(keys):
            every, place = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
            values = np.zeros((*sums.shape[:2], len(every)), np.int64)
            values[:, :, place[: len(self._keys)]] = self._values
            values[:, :, place[len(self._keys) :]] += sums
            self._keys, self._values = every, values


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
        scores = np.log(np.maximum(predictions, FLOAT_LOWEST)) - np.log1p(-np.minimum(predictions, FLOAT_HIGHEST))
        scores = np.nan_to_num(scores)  # weights that are no numbers fail the version later
        place = np.clip(scores * np.float32(BINS / 2 / LIMIT) + np.float32(BINS / 2), 0, BINS - 1).astype(np.int16)
        after = np.stack(
            [heights.take(at) + slopes.take(at) * s for (heights, slopes), at, s in zip(lines, place, scores, strict=True)]
        )
        keys, shown = np.empty(0, np.uint64), after
        if self._asked.line is not None:
            codes = batch.codes(self._asked.line)
            every = np.append(batch.keys, np.uint64(0))
            there = np.flatnonzero(np.bincount(codes, minlength=len(every)))
            biases = np.zeros((len(known), len(every)), np.float32)
            for line, one in zip(biases, known, strict=True):
                line[there] = one.biases.of(every[there])
            keys, shown = every[codes], after + biases[:, codes]
        counts = batch.id.pass_number == 0 and batch.fresh and not batch.counted
        seen = SeenRows(octave, batch.label[:, : batch.examples], predictions, place, after, keys) if counts else None
        return 1 / (1 + np.exp(-shown)), seen

    def see(self, seen: SeenRows) -> None:
        """Count rows."""
        with self._lock:
            self._of(seen.octave).see(seen)

    def add(self, one: OctaveTally) -> None:
        """Merge another's tally."""
        with self._lock:
            self._of(one.octave).add(one)

    def _of(self, octave: int) -> Octave:
        if octave not in self._octaves:
            self._octaves[octave] = Octave(octave, self._asked.labels, self._asked.late)
        return self._octaves[octave]

    def _fitted_before(self, octave: int) -> tuple[tuple[Fitted, ...], list[tuple[Floats, Floats]]]:
        if octave not in self._known:
            found = fitted(self._asked, self._last(octave - 1))
            self._known[octave] = found, [one.lines for one in found]
        return self._known[octave]

    def _last(self, newest: int) -> OctaveTally:
        """Return the tallies of two octaves, and what the continued version knew."""
        whole = Octave(newest, self._asked.labels, self._asked.late)
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
