"""ML.CONFUSION_MATRIX: labels against predictions at a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


HALF = 0.5


def run(context: StatementContext, call: Call) -> Pending:
    from ...scoring.evaluation import Evaluation
    from ...scoring.thresholds import check_probabilities, class_confusion, confusion_matrix, confusion_schema

    data, (threshold,) = call.data, call.arguments
    assert data is not None  # required by the grammar
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise StatementError(f"ML.CONFUSION_MATRIX takes a threshold from 0 to 1, such as 0.5; got {threshold!r}.")
    version = call.read(context)
    with data.locating():
        evaluation = Evaluation(version, context.engine, data.text, None)
    if (classes := evaluation.classes) is None:
        check_probabilities(evaluation, "ML.CONFUSION_MATRIX")
    elif threshold != HALF:
        raise StatementError(
            f"ML.CONFUSION_MATRIX counts the likeliest of several classes, at no threshold; got {threshold!r}. Leave it out."
        )

    def measure() -> pa.Table:
        with data.locating():
            if classes is not None:
                return class_confusion(evaluation, classes, call.folder, context.reporter)
            return confusion_matrix(evaluation, float(threshold), call.folder, context.reporter)

    return Pending(confusion_schema(evaluation), measure)


CONFUSION_MATRIX = TableFunction(
    "CONFUSION_MATRIX",
    "ML.CONFUSION_MATRIX(MODEL name [VERSION n], TABLE t | (query) [, threshold])",
    "Two rows for each label, expected 0 and 1: how many predictions are below the threshold, 0.5, and how many reach it. "
    "Data has labels of 0 and 1. Of a label with classes a row for each: how many of it are predicted to be "
    "of each, the likeliest; it takes no threshold.",
    "required",
    ("a threshold",),
    run,
    default=(HALF,),
)
