"""Standardisation of continuous slots, and of the labels of some algorithms, by what has been seen of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...warehouse.manifest import Manifest
from ..ps.moments import Moments, moments_of
from .batches import Batch
from .columns import Columns

LIMIT = 8.0

Floats = NDArray[np.float32]


class Scales(NamedTuple):
    """What a batch is standardised by.

    Attributes:
        slots: statistics of the continuous slots.
        labels: statistics of the labels; of none where they are learned as they are.
    """

    slots: Moments
    labels: Moments

    @classmethod
    def of(cls, moments: Moments, num_labels: int) -> Scales:
        """Divide the statistics of continuous slots, then of labels, `num_labels` of them."""
        first = len(moments.count) - num_labels
        return cls(Moments._make(line[:first] for line in moments), Moments._make(line[first:] for line in moments))

    def standardised(self, batch: Batch) -> Batch:
        """Return the batch with labels as they are learned."""
        if not len(self.labels.count):
            return batch
        label = (batch.label - self.labels.mean[:, None]) / deviation(self.labels)[:, None]
        return batch._replace(label=label.astype(np.float32))

    def restored(self, predictions: Floats) -> Floats:
        """Return predictions float32[n, num_labels] in the unit of the labels."""
        if not len(self.labels.count):
            return predictions
        return (predictions * deviation(self.labels) + self.labels.mean).astype(np.float32)


def measured(batch: Batch, kept: Moments, num_labels: int) -> Moments:
    """Return the statistics of a batch's values of what `kept` has statistics of; see Scales.of."""
    values = batch.dense[: len(kept.count) - num_labels, : batch.examples]
    return moments_of(np.concatenate([values, batch.label[:num_labels, : batch.examples]]) if num_labels else values)


def deviation(moments: Moments) -> NDArray[np.float64]:
    """Return standard deviations; 1 where all values are the same."""
    found = np.sqrt(moments.squares / np.maximum(moments.count, 1))
    return np.where(found > 0, found, 1.0)


def scale(dense: Floats, moments: Moments, batch_size: int) -> Floats:
    """Return a batch's dense values as algorithms take them: continuous slots standardised, elements of vectors as they are.

    Values are clipped to 8 standard deviations, infinite ones too, so that one outlier cannot throw a weight; an infinite
    element of a vector counts as absent.

    Args:
        dense: float32[num_dense, examples], NaN where absent; the continuous slots first.
        moments: of the continuous slots.
        batch_size: the padded number of examples.

    Returns:
        float32[batch_size, num_dense], 0 where absent and on padding.
    """
    n, examples = len(moments.count), dense.shape[1]
    scaled = np.zeros((batch_size, len(dense)), np.float32)
    if n:
        values = np.clip((dense[:n] - moments.mean[:, None]) / deviation(moments)[:, None], -LIMIT, LIMIT)
        scaled[:examples, :n] = np.nan_to_num(values, nan=0.0).T
    if n < len(dense):
        scaled[:examples, n:] = np.nan_to_num(dense[n:], nan=0.0, posinf=0.0, neginf=0.0).T
    return scaled


def as_entry(moments: Moments) -> dict[str, list[float]]:
    """Return statistics as a manifest keeps them."""
    return {name: values.tolist() for name, values in moments._asdict().items()}


def from_entry(entry: Mapping[str, Sequence[float]] | Mapping[str, Any]) -> Moments:
    """Return statistics that a manifest keeps."""
    return Moments(*(np.array(entry[name], np.float64) for name in Moments._fields))


def moments_in(manifest: Manifest, columns: Columns) -> Moments:
    """Return a version's statistics for the slots that `columns` standardise; a new slot has statistics of no values."""
    kept, names = manifest.statistics["scaler"], list(manifest.statistics["scaled"])
    wanted = columns.scaled
    return from_entry({field: [line[names.index(s)] if s in names else 0.0 for s in wanted] for field, line in kept.items()})
