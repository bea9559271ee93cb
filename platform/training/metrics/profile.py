"""The profile of a training's rows: how often values of each slot occur, and what numbers and predictions are.

Of every 16th batch of the first pass, by the batch's own number, so that a replay and another number of workers sample the same
rows. Counts are whole numbers and add up in any order, as long as a slot has no more keys than are kept.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.calibration import sigmoid
from ...ps._native import SlotCounts
from ...ps.transport.checks import check_shape, refused
from .likelihood import log_odds

if TYPE_CHECKING:
    from ...input.batches import Batch

EVERY = 16
BUCKETS = 256
SAMPLE = 1 << 13
BINS, LIMIT = 64, 12.0
"""Of log odds of predictions."""
MOST_KEYS = 1 << 18
GOLDEN, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


class Profiled(NamedTuple):
    """What is profiled.

    Attributes:
        slots: the numbers of slots of categories.
        numbers: how many slots have a number.
        classes: labels are 0 or 1, and predictions probabilities.
        labels: how many there are.
        shift: what the version adds to the log odds of predictions.
    """

    slots: tuple[int, ...]
    numbers: int
    classes: bool
    labels: int
    shift: float = 0.0


class ProfileTally(NamedTuple):
    """What was counted, as it travels.

    Attributes:
        rows: how many were sampled.
        buckets: int64[slots, 256], occurrences by the top 8 bits of the key.
        keys, places, counts: the keys that occurred, ascending by slot and key, the places of their slots, and how often.
        sample: float32[numbers, k], rows drawn for their numbers, NaN of none; order: uint64[k], which are kept, ascending.
        predictions: int64[labels, 64], by log odds.
        sums: float64[labels, 2], of labels and predictions.
    """

    rows: int
    buckets: Ints
    keys: Keys
    places: Ints
    counts: Ints
    sample: Floats
    order: Keys
    predictions: Ints
    sums: NDArray[np.float64]


class Profile:
    """Counts rows; threads may share it."""

    def __init__(self, asked: Profiled) -> None:
        self.asked = asked
        self._rows, self._counts = 0, SlotCounts(np.array(asked.slots, np.uint16), MOST_KEYS)
        self._drawn: list[tuple[Floats, Keys]] = [(np.empty((asked.numbers, 0), np.float32), np.empty(0, np.uint64))]
        self._highest = np.uint64(np.iinfo(np.uint64).max)
        self._predictions, self._sums = np.zeros((asked.labels, BINS), np.int64), np.zeros((asked.labels, 2))
        self._lock = threading.Lock()

    def add(self, batch: Batch, predictions: Floats, number: int) -> None:
        """Take in a batch, with its predictions float32[labels, n].

        Args:
            number: of its first row, another one for each batch.
        """
        with self._lock:
            self._rows += batch.examples
            self._counts.add(batch.keys, batch.slots, batch.counts)
            if self.asked.numbers:
                order = mixed(np.uint64(number) + np.arange(batch.examples, dtype=np.uint64))
                self._draw(batch.dense[: self.asked.numbers, : batch.examples], order)
            if self.asked.labels:
                self._score(batch.label[:, : batch.examples], predictions)

    def _score(self, labels: Floats, predictions: Floats) -> None:
        """Take in predictions, and labels where they are known."""
        check_shape("predictions of a profile", predictions, (self.asked.labels, labels.shape[1]))
        if self.asked.classes:
            log_p, log_q = log_odds(predictions.astype(np.float64))
            scores = np.nan_to_num(log_p - log_q + self.asked.shift)  # weights that are no numbers fail the version later
            bins = np.clip((scores / LIMIT + 1) * (BINS / 2), 0, BINS - 1).astype(np.int64)
            for line, own in zip(self._predictions, bins, strict=True):
                line += np.bincount(own, minlength=BINS)
        shown = sigmoid(scores) if self.asked.shift else predictions
        self._sums[:, 1] += shown.sum(axis=1, dtype=np.float64)
        if len(labels):
            self._sums[:, 0] += labels.sum(axis=1, dtype=np.float64)

    def _draw(self, values: Floats, order: Keys) -> None:
        """Keep the rows of the lowest order; as many more may wait, since it would cost to sort them for each batch."""
        low = order < self._highest
        self._drawn.append((values[:, low], order[low]))
        if sum(len(one) for _, one in self._drawn) >= 2 * SAMPLE:
            self._cut()

    def _cut(self) -> None:
        """Sort the rows that are kept, ascending by order, and forget those beyond SAMPLE."""
        values, order = (np.concatenate(parts, axis=-1) for parts in zip(*self._drawn, strict=True))
        kept = np.argsort(order, kind="stable")[:SAMPLE]
        self._drawn = [(values[:, kept], order[kept])]
        if len(kept) == SAMPLE:
            self._highest = order[kept[-1]]

    def tally(self) -> ProfileTally:
        """Return what was counted."""
        with self._lock:
            self._cut()
            (sample, order), (buckets, keys, places, counts) = self._drawn[0], self._counts.tally()
            buckets, predictions, sums = buckets.reshape(-1, BUCKETS), self._predictions.copy(), self._sums.copy()
            return ProfileTally(self._rows, buckets, keys, places, counts, sample, order, predictions, sums)

    def take(self, other: ProfileTally) -> None:
        """Merge another's.

        Raises:
            TrainingError: other slots or labels were profiled there.
        """
        n, drawn, many = len(self.asked.slots), other.order.shape, other.keys.shape
        checked = (
            ("buckets", (n, BUCKETS)),
            ("keys", many[:1]),
            ("places", many),
            ("counts", many),
            ("sample", (self.asked.numbers, *drawn)),
            ("order", drawn[:1]),
            ("predictions", (self.asked.labels, BINS)),
            ("sums", (self.asked.labels, 2)),
        )
        for name, shape in checked:
            check_shape(f"{name} of a profile", getattr(other, name), shape)
        if not ((other.places >= 0) & (other.places < n) & (other.counts > 0)).all():
            raise refused("the keys of a profile", f"places of {n} slots, and counts above 0", (other.places, other.counts))
        with self._lock:
            self._rows += other.rows
            self._counts.merge(other.buckets, other.keys, other.places, other.counts)
            self._draw(other.sample, other.order)
            self._predictions += other.predictions
            self._sums += other.sums


def mixed(values: Keys) -> Keys:
    """Return numbers that look random, another one for each.

    Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
    """
    found = values * GOLDEN
    found = (found ^ (found >> np.uint64(30))) * MIX
    return found ^ (found >> np.uint64(27))
