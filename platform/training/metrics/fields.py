"""Metrics of the values of a column: how far labels are from predictions, value by value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

LEAST_ROWS = 100
"""Rows below which a value is left out: its mean label is mostly chance."""
SMALL = 0.01
FIELD_METRICS = {
    "field_ce": "of a column's values the mean distance of labels from predictions, weighted by their rows",
    "field_rce": "the same distance divided by the value's mean label",
    "field_share": "the share of rows whose value has 100 of them, on which both are",
}


class FieldSums(NamedTuple):
    """Rows by value: how many there are, and the sums of labels and predictions."""

    rows: Doubles
    labels: Doubles
    predictions: Doubles


def field_metrics(sums: FieldSums) -> dict[str, float | None]:
    """Return the metrics of FIELD_METRICS; None where no value has LEAST_ROWS.

    Source: Pan et al., "Field-aware Calibration", WWW 2020, equation 3, of values that have LEAST_ROWS.
    """
    some = sums.rows >= LEAST_ROWS
    rows, labels, predictions = (values[some] for values in sums)
    if not len(rows):
        return {"field_ce": None, "field_rce": None, "field_share": 0.0 if len(sums.rows) else None}
    differences, total = np.abs(labels - predictions), rows.sum()
    return {
        "field_ce": float(differences.sum() / total),
        "field_rce": float((rows * differences / (labels + SMALL)).sum() / total),
        "field_share": float(total / sums.rows.sum()),
    }


def of_segments(found: Mapping[str, tuple[float, float, float]]) -> dict[str, float | None]:
    """Return the metrics of values whose rows, labels and predictions are summed."""
    return field_metrics(FieldSums(*np.array(list(found.values()), np.float64).reshape(-1, 3).T))


class FieldTally:
    """Rows by the value of a column, piece by piece."""

    def __init__(self) -> None:
        self._sums: dict[object, tuple[float, float, float]] = {}

    def add(self, values: NDArray[np.int64], labels: NDArray[np.float32], predictions: NDArray[np.float32]) -> None:
        """Take in rows, whose values have numbers."""
        names, place = np.unique(values, return_inverse=True)
        sums = (np.bincount(place, weights, len(names)) for weights in (None, labels, predictions))
        for name, *found in zip(names.tolist(), *(one.tolist() for one in sums), strict=True):
            rows, clicks, predicted = self._sums.get(name, (0.0, 0.0, 0.0))
            self._sums[name] = rows + found[0], clicks + found[1], predicted + found[2]

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of FIELD_METRICS."""
        return field_metrics(FieldSums(*np.array(list(self._sums.values()), np.float64).reshape(-1, 3).T))
