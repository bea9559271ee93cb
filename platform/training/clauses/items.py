"""ITEMS: what describes the items that rows are about."""

from __future__ import annotations

from ...engines.spark_sql.cursor import Cursor
from .base import Clause, named, of_tables, of_type, same


def read(cursor: Cursor) -> str | None:
    if cursor.accept("TABLE"):
        return f"SELECT * FROM {cursor.table().text}"
    if not cursor.peek("("):
        raise cursor.expected("TABLE name or (query)")
    return cursor.parenthesised().text


ITEMS: Clause[str | None, str | None] = Clause(
    "ITEMS",
    "{TABLE t | (query)}",
    "Items and the columns that describe them, one item a row: the first column, which the query has under the same name, is "
    "the item's id; the others count as columns of the query. Rows of other items are left out and counted, or an error: "
    "`WITH (missing_items = 'error')`. `CONTINUE` runs its version's query again, except for a stream: see "
    "[retrieval.md](retrieval.md#items-of-their-own).",
    read,
    None,
    same,
    same,
    of_type(str),
    of_tables,
    named("items"),
)
