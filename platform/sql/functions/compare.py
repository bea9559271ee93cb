"""ML.COMPARE: two versions on the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, Keyword, Pending, TableFunction, column_of

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> Pending:
    from ...scoring.comparison import Comparison

    data, versions = call.data, (call.read(context), call.read_other(context))
    assert data is not None  # required by the grammar
    with data.locating():
        comparison = Comparison(versions, context.engine, data.text, call.keywords.get("GROUP"))

    def measure() -> pa.Table:
        with data.locating():
            return comparison.measure(call.folder, context.reporter)

    return Pending(comparison.schema, measure)


COMPARE = TableFunction(
    "COMPARE",
    "ML.COMPARE(MODEL name [VERSION n], MODEL name [VERSION n], TABLE t | (query) [, GROUP column])",
    "Compare two versions on the same rows, by auc and logloss, or rmse and mae for numbers: metric, model_value, other_value, "
    "difference (the first less the second), low and high, which bound it in 95 % of 1,000 bootstrap samples, examples, "
    "groups. GROUP draws the rows of a user, or of a day, together. With several labels, rows for each.",
    "required",
    (),
    run,
    other=True,
    keywords=(Keyword("GROUP", column_of),),
)
