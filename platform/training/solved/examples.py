"""Examples encoded and kept in memory, for algorithms that learn all of them at once."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ....algorithms.base import Algorithm, Inputs
from ...input.batches import Batch
from ...input.operator_inputs import offered_of
from ...input.scaling import Scales, measured, scale
from ...input.source import row_of
from ...ps._native import unique
from ...ps.compiled.ladder import rung
from ...ps.messages import BatchId, Keys
from ...ps.moments import Moments, merged, no_moments
from ..metrics.metrics import LabelMetrics, Tally
from ..online.step import inputs_of, objective_step, score_step
from ..prepared import Prepared
from .rates import rates_of

Doubles = NDArray[np.float64]


class KeyedFeatures(NamedTuple):
    """Statistics of the features of some examples, by ascending key; arrays of one length.

    Attributes:
        keys: uint64[n]; slots: uint16[n]; counts, clicks: int64[n]; last_seen: uint32[n], seconds.
    """

    keys: Keys
    slots: NDArray[np.uint16]
    counts: NDArray[np.int64]
    clicks: NDArray[np.int64]
    last_seen: NDArray[np.uint32]

    def only(self, chosen: NDArray[np.bool_]) -> KeyedFeatures:
        """Return some of the features."""
        keys, slots, counts, clicks, last_seen = self
        return KeyedFeatures(keys[chosen], slots[chosen], counts[chosen], clicks[chosen], last_seen[chosen])


def united(parts: Sequence[KeyedFeatures]) -> tuple[KeyedFeatures, list[NDArray[np.intp]]]:
    """Return the union of all parts' features, and for each part the positions of its features."""
    if not parts:
        return NO_FEATURES, []
    every = KeyedFeatures(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    found, number = unique(every.keys)
    order, n = np.argsort(found), len(found)
    rank = np.empty(n, np.intp)
    rank[order] = np.arange(n)
    place = rank[number]
    slots, last_seen = np.empty(n, np.uint16), np.zeros(n, np.uint32)
    slots[place] = every.slots
    np.maximum.at(last_seen, place, every.last_seen)
    counts, clicks = (np.bincount(place, values, n).astype(np.int64) for values in (every.counts, every.clicks))
    ends = np.cumsum([len(part.keys) for part in parts])
    return KeyedFeatures(found[order], slots, counts, clicks, last_seen), np.split(place, ends[:-1])


class Evaluated(NamedTuple):
    """A sum of losses, and its gradient float64[n, dim]."""

    loss: float
    gradient: Doubles


class KeptExamples:
    """The examples of some splits.

    Args:
        prepared: the training.
        splits: numbers of the splits.
        threads: how many evaluate at once.

    Attributes:
        features: of all examples.
        moments: of the standardised slots.
        examples: how many there are.
        kept: what operators keep of features.

    Raises:
        DataError: see read, encode and check.
    """

    def __init__(self, prepared: Prepared, splits: Sequence[int], threads: int) -> None:
        self._algorithm: Algorithm = prepared.recipe.algorithm
        self._num_labels = len(prepared.columns.labels) if self._algorithm.standardised else 0
        self._threads = threads
        self._targets = prepared.targets.ungrouped
        self._step, self._score = objective_step(self._algorithm), score_step(self._algorithm)
        (self._table,) = (table.name for table in self._algorithm.tables)
        self._batches = [batch for split in splits for batch in batches_of(prepared, split)]
        self.examples = sum(batch.examples for batch in self._batches)
        offered, self.kept = rates_of(prepared, self._batches)
        self._offered = [offered_of(batch, of_batch) for batch, of_batch in zip(self._batches, offered, strict=True)]
        self.features, self._places = united([features_of(batch) for batch in self._batches])
        self._place = np.concatenate([np.empty(0, np.intp), *self._places])
        kept = no_moments(len(prepared.columns.scaled))
        for batch in self._batches:
            kept = merged(kept, measured(batch, kept, self._num_labels))
        self.moments = kept
        self._inputs: list[Inputs] = []
        self._scales = Scales.of(kept, self._num_labels)

    @property
    def bytes(self) -> int:
        """The memory that they take, as encoded."""
        return sum(value.nbytes for batch in self._batches for value in batch if isinstance(value, np.ndarray))

    def scale(self, moments: Moments) -> None:
        """Standardise by the statistics of all examples of the training; before the first evaluation."""
        self._scales = by = Scales.of(moments, self._num_labels)
        self._inputs = [device_inputs(batch, by) for batch in self._batches]

    def evaluate(self, weights: Doubles) -> Evaluated:
        """Return the sum of losses of the examples with weights float64[n, dim] of their features, and its gradient."""
        rows = weights.astype(np.float32)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="xpsql-worker") as pool:
            found = list(pool.map(lambda at: self._evaluated(at, rows), range(len(self._batches))))
        if not found:
            return Evaluated(0.0, np.zeros_like(weights))
        gradients = np.concatenate([gradient for _, gradient in found])
        columns = [np.bincount(self._place, gradients[:, column], len(weights)) for column in range(weights.shape[1])]
        return Evaluated(sum(loss for loss, _ in found), np.stack(columns, axis=1))

    def measure(self, weights: Doubles) -> tuple[Tally, ...]:
        """Return the metrics of the examples, of each label."""
        rows, metrics = weights.astype(np.float32), LabelMetrics(self._targets)
        for at, batch in enumerate(self._batches):
            found = self._score({self._table: self._padded(at, rows)}, self._inputs[at], self._offered[at]).predictions
            predictions = self._scales.restored(np.asarray(found)[: batch.examples])
            metrics.add(batch.label[:, : batch.examples], predictions.T)
        return metrics.tallies()

    def _evaluated(self, at: int, rows: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
        done = self._step(self._padded(at, rows), self._inputs[at], self._offered[at])
        return float(done.loss), np.asarray(done.gradient)[: len(self._places[at])]

    def _padded(self, at: int, rows: NDArray[np.float32]) -> Any:
        place = self._places[at]
        whole = np.zeros((self._batches[at].size, rows.shape[1]), np.float32)
        np.take(rows, place, axis=0, out=whole[: len(place)], mode="clip")  # checked indices would need a copy
        return whole


NO_FEATURES = KeyedFeatures(
    np.empty(0, np.uint64), np.empty(0, np.uint16), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint32)
)


def batches_of(prepared: Prepared, number: int) -> Iterator[Batch]:
    """Read a split in large batches."""
    split, which, row, encoder = prepared.splits[number], BatchId(split=number), 0, prepared.encoder
    size = prepared.batch_size
    for table in prepared.scan.read(split, prepared.columns.learned, size):
        if table.num_rows:
            chunk = encoder.chunk(table, functools.partial(row_of, prepared.scan, split, row))
            yield from encoder.batches(chunk, min(size, rung(table.num_rows)), which, prepared.recipe.ladders, 0)
        row += table.num_rows


def features_of(batch: Batch) -> KeyedFeatures:
    """Return the features of a batch, and how often each occurs."""
    time = np.full(len(batch.keys), batch.time_seconds, np.uint32)
    return KeyedFeatures(batch.keys, batch.slots, batch.counts.astype(np.int64), batch.clicks.astype(np.int64), time)


def device_inputs(batch: Batch, by: Scales) -> Inputs:
    """Return a batch as the step takes it, labels as [batch, num_labels], where the step runs."""
    dense = scale(batch.dense, by.slots, len(batch.weight))
    inputs: Inputs = jax.device_put(inputs_of(by.standardised(batch), dense, None))
    return inputs._replace(label=inputs.label.T)
