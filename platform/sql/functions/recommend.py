"""ML.RECOMMEND: the best items for each row of a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import StatementError
from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> Pending:
    from ...scoring.catalogue import catalogue_of
    from ...scoring.recommendation import Recommendation

    data, (k,) = call.data, call.arguments
    assert data is not None  # required by the grammar
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise StatementError(f"ML.RECOMMEND takes a number of items, 1 or more; got {k!r}.")
    version = call.read(context)
    if call.items is None:
        raise StatementError(
            "ML.RECOMMEND needs ITEMS (query): a model keeps keys of items, from which their names cannot be recovered. "
            "Write ITEMS (SELECT DISTINCT item FROM t), with the other columns of the item that the model learned from."
        )
    with call.items.locating():
        items = catalogue_of(version, context.engine.reader(call.items.text).read_all(), k)
    with data.locating():
        found = Recommendation(version, context.engine, data.text, items, k, call.exclude)

    def write() -> list[Path]:
        with data.locating():
            return found.write(call.folder, context.reporter)

    return Pending(found.schema, write)


RECOMMEND = TableFunction(
    "RECOMMEND",
    "ML.RECOMMEND(MODEL name [VERSION n], TABLE t | (query), k, ITEMS TABLE t | (query) [, EXCLUDE column])",
    "The k best items for each row: the row's columns, the item, rank (from 1) and score. ITEMS has an item a row: the "
    "item's id in its first column, and the other columns of the item that the model learned from.",
    "required",
    ("a number of items",),
    run,
    items="after",
)
