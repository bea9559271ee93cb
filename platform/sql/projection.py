"""Projection pushdown: which columns of a call's result the statement around it can need, so that ML.PREDICT carries no
others."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from ..engines.spark_sql.dialect import trees_of


class NoTableError(Exception):
    """A view stands where a value is expected."""


def needed_columns(statement: str, view: str) -> frozenset[str] | None:
    """Return the names that can mean a column of `view` in a statement, in lower case; None: all columns.

    These are all names in the SELECT that reads the view, so there can be too many, never too few.

    Raises:
        NoTableError: the view stands for a value.
    """
    if statement.lstrip()[:7].upper() == "EXPLAIN":
        return None  # no SELECT for sqlglot
    try:
        tree = next(iter(trees_of(statement, Spark())), None)
    except SqlglotError:
        tree = None
    if tree is None:
        return None  # the engine parses the statement next, and reports what is wrong
    table = next((table for table in tree.find_all(exp.Table) if table.name == view), None)
    if table is None and any(part.name == view for column in tree.find_all(exp.Column) for part in column.parts):
        raise NoTableError
    select = table.find_ancestor(exp.Select) if table else None
    if table is None or select is None or table.alias_column_names or takes_all(select, table):
        return None
    return frozenset(identifier.name.lower() for identifier in select.find_all(exp.Identifier)) - {view}


def takes_all(select: exp.Select, table: exp.Table) -> bool:
    """Return whether a SELECT uses all columns of one of its tables: by a star, NATURAL JOIN, PIVOT or UNPIVOT."""
    if any(join.method.upper() == "NATURAL" for join in select.args.get("joins") or ()) or select.find(exp.Pivot):
        return True
    return any(covers(star, table) for star in stars(select))


def stars(select: exp.Select) -> Iterator[exp.Star]:
    """Find the stars of a SELECT, but not of queries inside it."""
    for node in select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query)):
        if isinstance(node, exp.Star):
            yield node


def covers(star: exp.Star, table: exp.Table) -> bool:
    """Return whether a star can mean a table's columns: not in COUNT(*), nor with another table's name before it."""
    parent = star.parent
    if isinstance(parent, exp.Column) and parent.table:
        return parent.table.lower() == table.alias_or_name.lower()
    return not isinstance(parent, exp.Count)
