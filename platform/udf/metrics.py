"""Metrics of predictions as aggregates: auc, logloss, pcopc."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .base import Computed, Function

EPSILON = 1e-15


def auc_sql(label: str, prediction: str) -> str:
    """Return the area from the scores of clicks and of the others, collected apart."""
    clicks = f"collect_list(CASE WHEN {label} > 0.5D THEN {prediction} END)"
    others = f"collect_list(CASE WHEN {label} <= 0.5D THEN {prediction} END)"
    return f"xpsql_auc({clicks}, {others})"


def logloss_sql(label: str, prediction: str) -> str:
    """Return the mean negative log-likelihood, predictions kept off 0 and 1."""
    p = f"least(greatest({prediction}, {EPSILON}D), 1D - {EPSILON}D)"
    return f"-avg(CASE WHEN {prediction} IS NOT NULL THEN {label} * ln({p}) + (1D - {label}) * ln(1D - {p}) END)"


def pcopc_sql(label: str, prediction: str) -> str:
    """Return predicted over observed clicks."""
    predicted = f"sum(CASE WHEN {label} IS NOT NULL THEN {prediction} END)"
    observed = f"sum(CASE WHEN {prediction} IS NOT NULL THEN {label} END)"
    return f"try_divide({predicted}, {observed})"


def metric(name: str, help: str, sql: Callable[[str, str], str]) -> Function:
    """Declare a metric of (label, prediction)."""

    def expand(arguments: Sequence[str]) -> str:
        label, prediction = arguments
        return sql(f"CAST({label} AS DOUBLE)", f"CAST({prediction} AS DOUBLE)")

    return Function(name, "(label, prediction DOUBLE) -> DOUBLE", help, 2, 2, expand)


auc = metric(
    "auc", "The exact area under the ROC curve; NULL without both kinds of label. Rows with a NULL are skipped.", auc_sql
)
logloss = metric("logloss", "The mean logarithmic loss, in nats. Rows with a NULL are skipped.", logloss_sql)
pcopc = metric(
    "pcopc", "The sum of predictions over the sum of labels; NULL without clicks. Rows with a NULL are skipped.", pcopc_sql
)


def auc_of_lists(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the AUC of each row's two lists of scores, of positives and of negatives; NULL where one is empty."""
    positives, negatives = (column.cast(pa.large_list(pa.float64())) for column in columns)
    areas = [area(scores(positives, row), scores(negatives, row)) for row in range(len(positives))]
    return pa.array(areas, pa.float64())


def scores(lists: pa.Array, row: int) -> npt.NDArray[np.float64]:
    """Return one list's numbers."""
    values = lists[row].values
    return np.empty(0) if values is None else values.to_numpy(zero_copy_only=False)


def area(positives: npt.NDArray[np.float64], negatives: npt.NDArray[np.float64]) -> float | None:
    """Return the chance that a positive scores above a negative; equal scores count one half.

    Source: Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 27 (2006), section 7.
    """
    if not len(positives) or not len(negatives):
        return None
    ordered = np.sort(negatives)
    below = ordered.searchsorted(positives, "left").sum(dtype=np.float64)
    at_most = ordered.searchsorted(positives, "right").sum(dtype=np.float64)
    return float((below + at_most) / 2 / len(positives) / len(negatives))


auc_of = Computed("xpsql_auc", auc_of_lists, pa.float64())
