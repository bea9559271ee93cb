"""Expressions of one row, evaluated in this process on tables in memory whatever engine a session has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from ..quoting import quoted


def row_expressions(expressions: Mapping[str, str], stored: pa.Schema) -> Callable[[pa.Table], pa.Table]:
    """Return a function that computes columns of tables.

    Args:
        expressions: column -> Spark SQL.
        stored: the columns of the tables, in Spark's types.

    Returns:
        A function that threads may share; it keeps the order of rows.

    Raises:
        StatementError: an expression cannot run.
    """
    from .duckdb.projection import PIECE, projection_over  # imports DuckDB and sqlglot

    items = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in expressions.items())
    return projection_over(f"SELECT {items} FROM {PIECE}", stored)
