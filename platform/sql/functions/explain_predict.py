"""ML.EXPLAIN_PREDICT: predictions, and the attributions of slots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import StatementError
from ..base import Call, Keyword, Pending, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> Pending:
    from ...scoring.explanation import Explanation, check_labelled

    data, (top,) = call.data, call.arguments
    assert data is not None  # required by the grammar
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise StatementError(f"ML.EXPLAIN_PREDICT takes a number of attributions for each row, 1 or more; got {top!r}.")
    version = call.read(context)
    check_labelled(version)
    with data.locating():
        explanation = Explanation(version, context.engine, data.text, top)
    if (baseline := call.keywords.get("BASELINE")) is not None:
        with baseline.locating():
            explanation.check_baseline(baseline.text)

    def write() -> list[Path]:
        with (baseline or data).locating():
            reference = explanation.reference(call.folder / "baseline", context.reporter)
        with data.locating():
            return explanation.write(reference, call.columns, call.folder, context.reporter)

    return Pending(explanation.schema, write)


EXPLAIN_PREDICT = TableFunction(
    "EXPLAIN_PREDICT",
    "ML.EXPLAIN_PREDICT(MODEL name [VERSION n], TABLE t | (query), top_k [, BASELINE TABLE t | (query)])",
    "Score rows, and show which slots raise or lower each score most: the input's columns, predicted_<label>, "
    "top_feature_attributions, baseline_prediction_value, prediction_value, approximation_error; with several labels, a row "
    "for each. The baseline is the mean score of the rows of BASELINE, or of the rows themselves.",
    "required",
    ("a number of attributions",),
    run,
    keywords=(Keyword("BASELINE", None),),
)
