"""Spark SQL on DuckDB: parsed statements translated, rule by rule, to DuckDB's SQL.

A query's meaning is Spark's where sqlglot's own translation is not: see `rewrite` for the rules, one for each kind of node,
`functions`, `aggregates` and `lambdas` for calls, and `macros.sql` for what DuckDB has under no name. The parity table holds
them to a live Spark's answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from ....errors import StatementError
from ...spark_sql.dialect import position_of
from .macros import make_macros
from .rewrite import Rewriter
from .typer import Typer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def translate(statement: exp.Expr, connection: DuckDBPyConnection) -> str:
    """Return a parsed statement in DuckDB's SQL, whose macros the connection has.

    Args:
        statement: a tree that `dialect.parse` read; it is not changed.
        connection: where the query's relations are, with our functions registered. It gives the types on which some meanings
            depend: `a[1]` counts from 0 in an array and is a key in a map.

    Raises:
        StatementError: a function, pattern or clause that is not available; with its place and the nearest known names.
    """
    tree = Rewriter(Typer(connection)).query(statement.copy())
    try:
        sql = tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise StatementError(f"The query uses what this engine lacks: {error}.", position_of(statement)) from error
    make_macros(sql, connection)
    return sql
