"""Lists of columns in statements on tables and views: names, what a table is partitioned by, and the values of a partition."""

from __future__ import annotations

from ...errors import StatementError
from .cursor import Cursor
from .lexer import level


def column_names(cursor: Cursor) -> tuple[str, ...]:
    """Step over `(name [COMMENT 'text'], ...)`."""
    cursor.expect("(")
    names = cursor.listed(lambda: column_name(cursor))
    cursor.expect(")")
    return names


def column_name(cursor: Cursor) -> str:
    name = cursor.identifier("a column")
    comment(cursor)
    return name


def comment(cursor: Cursor) -> None:
    if cursor.accept("COMMENT"):
        cursor.string("a 'string'")


def partitioning(cursor: Cursor, columns: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Step over `PARTITIONED BY (name [type], ...)`; return the table's columns with those that it adds, and the names."""
    if not cursor.accept("PARTITIONED", "BY"):
        return columns, ()
    start = cursor.index
    try:
        return columns, column_names(cursor)
    except StatementError:
        if columns is None:
            raise
    cursor.index = start + 1
    names = cursor.listed(lambda: typed_column(cursor))
    cursor.index = start
    return f"{columns}, {cursor.parenthesised().text.strip()}", names


def typed_column(cursor: Cursor) -> str:
    """Step over a column and its type, and return its name."""
    name, depth = cursor.identifier("a column"), 0
    while not cursor.at_end and (depth or not (cursor.peek(",") or cursor.peek(")"))):
        depth += level(cursor.tokens[cursor.index])
        cursor.index += 1
    return name


def partition_items(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """Step over `(column [= value], ...)`, and return the columns and the texts of their values."""
    cursor.expect("(")
    items = cursor.listed(lambda: partition_item(cursor))
    cursor.expect(")")
    return items


def partition_item(cursor: Cursor) -> tuple[str, str | None]:
    """Step over `column` or `column = value`, and return the column and the text of the value."""
    name = cursor.identifier("a column")
    if not cursor.accept("="):
        return name, None
    first = cursor.tokens[cursor.index] if not cursor.at_end else None
    while not cursor.at_end and not (cursor.peek(",") or cursor.peek(")")):
        last = cursor.tokens[cursor.index]
        cursor.index += 1
    if first is None or first.text in (",", ")"):
        raise cursor.expected("a value")
    return name, cursor.passage.text[first.start : last.end]
