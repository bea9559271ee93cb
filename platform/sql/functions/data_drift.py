"""ML.DATA_DRIFT: how far rows are from those that a version learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base import Call, Keyword, Pending, TableFunction, column_of

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> Pending:
    from ...monitoring.data_drift import DataDrift

    data = call.data
    assert data is not None  # required by the grammar
    version = call.read(context)
    with data.locating():
        drift = DataDrift(version, context.engine, data.text, call.keywords.get("BY"))

    def measure() -> Any:
        with data.locating():
            return drift.measure(call.folder, context.reporter)

    return Pending(drift.schema, measure)


DATA_DRIFT = TableFunction(
    "DATA_DRIFT",
    "ML.DATA_DRIFT(MODEL name [VERSION n], TABLE t | (query) [, BY column])",
    "A row for each slot, and for predictions: how far the values of a query are from those that the version learned. drift "
    "is the Jensen-Shannon divergence js beyond noise, what chance gives; l_infinity, psi and, of numbers, wasserstein; "
    "null_share and new_share (occurrences whose feature has no row), each also for the version; top_changes: the values "
    "whose shares changed most. With BY a row for each value of a column, such as the day. See [monitoring.md](monitoring.md).",
    "required",
    (),
    run,
    keywords=(Keyword("BY", column_of),),
)
