"""Expressions of one row, evaluated in this process on tables in memory whatever engine a session has."""

from __future__ import annotations

import functools
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


@functools.lru_cache(1024)
def is_row_expression(sql: str) -> bool:
    """Return whether Spark SQL is an expression of the columns of one row, which reads nothing else."""
    from sqlglot import exp

    from ..errors import StatementError
    from .spark_sql.dialect import parse  # brings sqlglot

    try:
        tree = parse(f"SELECT {sql} AS x")
    except StatementError:
        return False
    one = isinstance(tree, exp.Select) and len(tree.expressions) == 1
    return (
        one
        and not any(name != "expressions" and value for name, value in tree.args.items())
        and all(node is tree or not isinstance(node, exp.Query | exp.Window | exp.Table) for node in tree.walk())
    )
