"""ML.CROSSES: combinations of slots that a version lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    import pyarrow as pa

    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> Pending:
    from ...training.auto.lacking import SCHEMA, MissingCrosses

    version, data = call.read(context), call.data
    assert data is not None  # required by the grammar
    with data.locating():
        lacking = MissingCrosses(version, context.engine, data.text, call.arguments[0])

    def measure() -> pa.Table:
        with data.locating():
            return lacking.measure(call.folder, context.reporter)

    return Pending(SCHEMA, measure)


CROSSES = TableFunction(
    "CROSSES",
    "ML.CROSSES(MODEL name [VERSION n], TABLE t | (query) [, order])",
    "Pairs of slots that tell what a version does not know, best first, by the residuals of its predictions on rows that it "
    "has not learned: slots, order, gain (by how much the mean loss of a row falls on the later half of the rows), low and "
    "high (95 %; low of all that were tried together), values, and verdict. With order 3 or 4 also what those combine "
    "to. With order 1 each slot alone: gain is by how much the loss grows where its values are those of other rows; verdict is "
    "`tells`, `dead`, which tells nothing about later rows, or `hurts`, where the model predicts better without.",
    "required",
    ("an order of 1 to 4",),
    run,
    default=(2,),
)
