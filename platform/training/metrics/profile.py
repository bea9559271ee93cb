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
from ...ps._native import unique
from ...ps.transport.checks import check_shape
from .likelihood import log_odds

if TYPE_CHECKING:
    from ...input.batches import Batch

EVERY = 16
BUCKETS, SHIFT = 256, np.uint64(56)
SAMPLE = 1 << 13
BINS, LIMIT = 64, 12.0
"""Of log odds of predictions."""
SETTLED, MOST_KEYS = 1 << 16, 1 << 18
GOLDEN, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


class Profiled(NamedTuple):
    """What is profiled.

    Attributes:
        slots: the numbers of slots of categories.
        nulls: uint64[n], the keys of their NULLs.
        lines: of each the place among slots of one value; -1 of others.
        numbers: how many slots have a number.
        classes: labels are 0 or 1, and predictions probabilities.
        labels: how many there are.
        shift: what the version adds to the log odds of predictions.
    """

    slots: tuple[int, ...]
    nulls: Keys
    lines: tuple[int, ...]
    numbers: int
    classes: bool
    labels: int
    shift: float = 0.0


class ProfileTally(NamedTuple):
    """What was counted, as it travels.

    Attributes:
        rows: how many were sampled.
        buckets: int64[slots, 256], occurrences by the top 8 bits of the key.
        absent: int64[slots], rows without a value.
        keys, places, counts: the keys that occurred, ascending by slot and key, the places of their slots, and how often.
        sample: float32[numbers, k], rows drawn for their numbers, NaN of none; order: uint64[k], which are kept, ascending.
        predictions: int64[labels, 64], by log odds.
        sums: float64[labels, 2], of labels and predictions.
    """

    rows: int
    buckets: Ints
    absent: Ints
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
        self._rows, n = 0, len(asked.slots)
        self._buckets, self._absent = np.zeros((n, BUCKETS), np.int64), np.zeros(n, np.int64)
        self._known: tuple[Ints, Keys, Ints] = np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64)
        self._waiting: list[tuple[Ints, Keys, Ints]] = []
        self._drawn: list[tuple[Floats, Keys]] = [(np.empty((asked.numbers, 0), np.float32), np.empty(0, np.uint64))]
        self._highest = np.uint64(np.iinfo(np.uint64).max)
        self._predictions, self._sums = np.zeros((asked.labels, BINS), np.int64), np.zeros((asked.labels, 2))
        self._place = np.full(1 << 16, -1, np.int64)
        self._place[list(asked.slots)] = np.arange(n)
        self._lock = threading.Lock()

    def add(self, batch: Batch, predictions: Floats, number: int) -> None:
        """Take in a batch, with its predictions float32[labels, n].

        Args:
            number: of its first row, another one for each batch.
        """
        place = self._place[batch.slots[: len(batch.keys)]]
        some = place >= 0
        place, keys, counts = place[some], batch.keys[some], batch.counts[: len(batch.keys)][some].astype(np.int64)
        buckets = place * BUCKETS + (keys >> SHIFT).astype(np.int64)
        absent = [np.count_nonzero(batch.codes(line) == len(batch.keys)) if line >= 0 else 0 for line in self.asked.lines]
        with self._lock:
            self._rows += batch.examples
            self._buckets += np.bincount(buckets, counts, self._buckets.size).astype(np.int64).reshape(self._buckets.shape)
            self._absent += np.array(absent, np.int64)
            self._waiting.append((place, keys, counts))
            if sum(len(keys) for _, keys, _ in self._waiting) >= SETTLED:
                self._settle()
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

    def _settle(self) -> None:
        """Count what waits; beyond MOST_KEYS the rarest half is forgotten."""
        if not self._waiting:
            return
        places, keys, counts = (np.concatenate(parts) for parts in zip(self._known, *self._waiting, strict=True))
        self._waiting = []
        coded = unique(keys ^ mixed(places.astype(np.uint64)))[1]
        first = np.full(coded.max(initial=-1) + 1, len(coded), np.int64)
        np.minimum.at(first, coded, np.arange(len(coded)))
        sums = np.bincount(coded, counts, len(first)).astype(np.int64)
        places, keys = places[first], keys[first]
        if len(keys) > MOST_KEYS:
            kept = np.argsort(-sums, kind="stable")[: MOST_KEYS // 2]
            places, keys, sums = places[kept], keys[kept], sums[kept]
        order = np.lexsort((keys, places))
        self._known = places[order], keys[order], sums[order]

    def tally(self) -> ProfileTally:
        """Return what was counted."""
        with self._lock:
            self._settle()
            self._cut()
            (sample, order), (places, keys, counts) = self._drawn[0], self._known
            return ProfileTally(
                self._rows,
                self._buckets.copy(),
                self._absent.copy(),
                keys,
                places,
                counts,
                sample,
                order,
                self._predictions.copy(),
                self._sums.copy(),
            )

    def take(self, other: ProfileTally) -> None:
        """Merge another's.

        Raises:
            TrainingError: other slots or labels were profiled there.
        """
        n, drawn, many = len(self.asked.slots), other.order.shape, other.keys.shape
        checked = (
            ("buckets", (n, BUCKETS)),
            ("absent", (n,)),
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
        with self._lock:
            self._rows += other.rows
            self._buckets += other.buckets
            self._absent += other.absent
            self._waiting.append((other.places, other.keys, other.counts))
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
