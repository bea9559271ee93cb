"""SOURCE, TARGET, TIME, GROUP and IGNORE: columns of the query with a role."""

from __future__ import annotations

from collections.abc import Iterator

from ...engines.spark_sql.cursor import Cursor
from .base import Clause, always, named, of_type, same


def read_column(cursor: Cursor) -> str | None:
    return cursor.identifier("a column")


def read_ignored(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    columns = () if cursor.peek(")") else cursor.columns("a column")
    cursor.expect(")")
    return columns


def ignored(columns: tuple[str, ...]) -> Iterator[tuple[str, str | None]]:
    yield "ignored", ", ".join(columns) or None


def column_clause(name: str, help: str) -> Clause[str | None, str | None]:
    """Return the clause of a column with a role."""
    return Clause(name, "column", help, read_column, None, same, same, of_type(str), always, named(name.lower()))


EDGE_SOURCE = column_clause("SOURCE", "The column that edges begin at, for algorithms over graphs: see [graphs](graphs.md).")
EDGE_TARGET = column_clause("TARGET", "The column that edges lead to, whose values are vertices as those of SOURCE are.")
TIME = column_clause(
    "TIME",
    "The event time, for operators that decay by time, and `last_seen`: a timestamp, a date, or seconds since 1970, "
    "at most in 2106. A time that is NULL or before 1970 is ignored.",
)
GROUP = column_clause(
    "GROUP",
    "The user or session, for the metric `gauc`. It is not a slot: to learn from it too, select it twice, under two names.",
)
IGNORE: Clause[tuple[str, ...], tuple[str, ...]] = Clause(
    "IGNORE",
    "([column, ...])",
    "Columns of the query that are not learned from; `()` for none, in a `CONTINUE` whose version has some.",
    read_ignored,
    (),
    same,
    same,
    of_type(tuple, tuple[str, ...]),
    always,
    ignored,
)
