"""ML.FEATURE_IMPORTANCE: how much each slot matters to a version, on data or by its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table | Pending:
    version, data = call.read(context), call.data
    if data is None:
        from ...models.importance import weight_importance

        return weight_importance(version, context.engine)

    from ...scoring.permutation import Permutation, check_measured

    check_measured(version)
    with data.locating():
        permutation = Permutation(version, context.engine, data.text)

    def measure() -> pa.Table:
        with data.locating():
            return permutation.measure(call.folder, context.reporter)

    return Pending(permutation.schema, measure)


FEATURE_IMPORTANCE = TableFunction(
    "FEATURE_IMPORTANCE",
    "ML.FEATURE_IMPORTANCE(MODEL name [VERSION n] [, TABLE t | (query)])",
    "How much a slot matters. On data with labels: loss_increase and auc_decrease where its values are taken from other rows "
    "(permutation). Without data: importance by weights, the mean over examples of their sizes, or by the gain of trees, and "
    "its share.",
    "optional",
    (),
    run,
)
