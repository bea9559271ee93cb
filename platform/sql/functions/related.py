"""ML.RELATED: pairs of items and their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.related import related, slots_of

    assert call.data is not None  # required by the grammar
    version = call.read(context)
    item, history = slots_of(version)
    with call.data.locating():
        return related(version, item, history, context.engine.reader(call.data.text).read_all())


RELATED = TableFunction(
    "RELATED",
    "ML.RELATED(MODEL name [VERSION n], TABLE t | (query))",
    "The items related to each, among those that the query returns: item, related, score. "
    "For models of slrm, and of xsvd (slim = true).",
    "required",
    (),
    run,
)
