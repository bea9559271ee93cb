"""Metrics of predictions as aggregates: auc, logloss, pcopc."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .base import Function

EPSILON = 1e-15


def auc_sql(arguments: Sequence[str]) -> str:
    """Return the area from the scores of clicks and of the others, collected apart."""
    label, prediction = (f"CAST({argument} AS DOUBLE)" for argument in arguments)
    return (
        f"auc_of(collect_list({prediction}) FILTER (WHERE {label} > 0.5),"
        f" collect_list({prediction}) FILTER (WHERE {label} <= 0.5))"
    )


def auc_of_lists(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the AUC of each row's two lists of scores, NULL where one is empty."""
    positives, negatives = (column.cast(pa.large_list(pa.float64())) for column in columns)
    rows = range(len(positives))
    areas = [area(scores(positives, row), scores(negatives, row)) for row in rows]
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


def logloss_sql(arguments: Sequence[str]) -> str:
    """Return the mean negative log-likelihood, predictions kept off 0 and 1."""
    label, prediction = (f"CAST({argument} AS DOUBLE)" for argument in arguments)
    p = f"least(greatest({prediction}, {EPSILON}D), 1D - {EPSILON}D)"
    return f"-avg({label} * ln({p}) + (1D - {label}) * ln(1D - {p}))"


def pcopc_sql(arguments: Sequence[str]) -> str:
    """Return predicted over observed clicks."""
    label, prediction = (f"CAST({argument} AS DOUBLE)" for argument in arguments)
    both = f"{label} IS NOT NULL AND {prediction} IS NOT NULL"
    return f"sum({prediction}) FILTER (WHERE {both}) / nullif(sum({label}) FILTER (WHERE {both}), 0D)"


def metric(name: str, help: str, sql: Callable[[Sequence[str]], str]) -> Function:
    """Declare a metric of (label, prediction)."""
    return Function(name, "(label, prediction DOUBLE) -> DOUBLE", help, 2, 2, sql=sql)


auc = metric(
    "auc", "The exact area under the ROC curve; NULL without both kinds of label. Rows with a NULL are passed over.", auc_sql
)
logloss = metric("logloss", "The mean logarithmic loss, in nats. Rows with a NULL are passed over.", logloss_sql)
pcopc = metric(
    "pcopc", "The sum of predictions over the sum of labels; NULL without clicks. Rows with a NULL are passed over.", pcopc_sql
)

auc_of = Function(
    name="auc_of",
    signature="(positives ARRAY<DOUBLE>, negatives ARRAY<DOUBLE>) -> DOUBLE",
    help="The exact area under the ROC curve of the scores of positives and of negatives; NULL where one is empty.",
    least=2,
    most=2,
    compute=auc_of_lists,
    result=pa.float64(),
)
