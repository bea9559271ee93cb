"""ML.ROC_CURVE: true and false positive rates of a version on data, threshold by threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> Pending:
    from ...scoring.evaluation import Evaluation
    from ...scoring.thresholds import check_probabilities, roc_curve, roc_schema

    version, data = call.read(context), call.data
    assert data is not None  # required by the grammar
    with data.locating():
        evaluation = Evaluation(version, context.engine, data.text, None)
    check_probabilities(evaluation, "ML.ROC_CURVE")

    def measure() -> pa.Table:
        with data.locating():
            return roc_curve(evaluation, call.folder, context.reporter)

    return Pending(roc_schema(evaluation), measure)


ROC_CURVE = TableFunction(
    "ROC_CURVE",
    "ML.ROC_CURVE(MODEL name [VERSION n], TABLE t | (query))",
    "For each label and each distinct prediction as the threshold, from the highest on: recall, false_positive_rate, and the "
    "counts of true and false positives and negatives. Data has labels of 0 and 1. A label with classes has a curve for each "
    "class against all others, named by the column class.",
    "required",
    (),
    run,
)
