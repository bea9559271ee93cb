"""Rows of a query made piece by piece: a table of stored columns in, a table of result columns out."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from ...errors import NoTextError, StatementError
from ...spark_types import duckdb_type, quoted, spark_schema
from ..spark_sql.parsing import parse_query
from .connection import connect, cursor, is_usable
from .failures import NO_TEXT, explained
from .results import found_schema, simplified
from .translation import make_macros, translate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from .files.source import FileSource

PIECE = "xpsql_piece"
ROWS = "xpsql_rows"
ROW_WISE = frozenset(("PROJECTION", "FILTER", "PYTHON_ARROW_SCAN", "EMPTY_RESULT"))


class Projection:
    """Makes the result's rows of one piece, in their order; from any thread, a connection for each.

    Where it travels to another process it opens a database of its own there.

    Args:
        sql: a query of PIECE.
        stored: the columns of PIECE.
        needed: those of them that a piece has.
        schema: the result's columns.
        database: what evaluates it; None: one of its own.
    """

    def __init__(
        self, sql: str, stored: pa.Schema, needed: tuple[str, ...], schema: pa.Schema, database: DuckDBPyConnection | None
    ) -> None:
        self.needed = needed
        self._sql, self._text = sql, over_piece(sql, stored, needed)
        self._stored = stored
        self._schema = schema
        self._database = database
        self._own = threading.local()
        self._opening = threading.Lock()
        self._narrower: dict[tuple[str, ...], Projection] = {}

    def __reduce__(self) -> tuple[type[Projection], tuple[Any, ...]]:
        return Projection, (self._sql, self._stored, self.needed, self._schema, None)

    def only(self, names: tuple[str, ...]) -> Projection:
        """Return the projection of the same rows to some of their columns."""
        if set(names) == set(self._schema.names):
            return self
        if names not in self._narrower:
            sql = f"SELECT {', '.join(map(quoted, names))} FROM ({self._sql})"
            with cursor(self._connection()) as connection:
                needed = needed_by(plan_over(connection, sql, self._stored), self._stored)
            schema = pa.schema([self._schema.field(name) for name in names])
            self._narrower[names] = Projection(sql, self._stored, needed, schema, self._database)
        return self._narrower[names]

    def _connection(self) -> DuckDBPyConnection:
        """Return this thread's connection to the database, with the macros that the query calls."""
        connection: DuckDBPyConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            with self._opening:
                if self._database is None:
                    self._database = connect(1)
                    make_macros(self._sql, self._database)
                connection = self._own.connection = cursor(self._database)
        return connection

    def __call__(self, piece: pa.Table) -> pa.Table:
        try:
            return self._made(piece)
        except StatementError as error:
            if not self._has_ended():
                raise
            if (found := no_text_in(piece)) is not None:
                raise found from error
        return self._made(piece)  # another query had ended the database

    def _made(self, piece: pa.Table) -> pa.Table:
        """Return the result's rows of one piece."""
        import duckdb

        with explained(""):
            connection = self._connection()
            connection.register(ROWS, piece)
            try:
                return connection.sql(self._text).to_arrow_table().cast(self._schema)
            finally:
                with suppress(duckdb.FatalException):  # it has ended, and its rows with it
                    connection.unregister(ROWS)

    def _has_ended(self) -> bool:
        """Return whether a failure has ended the database; then all threads open another."""
        with self._opening:
            if self._database is None or is_usable(self._database):
                return False
            self._database, self._own = None, threading.local()
            return True


def no_text_in(piece: pa.Table) -> NoTextError | None:
    """Return the error of the first text that is no UTF-8; None where all are."""
    for name, column in zip(piece.column_names, piece.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return NoTextError(f"Column {name} has bytes that are no UTF-8. {NO_TEXT}")
    return None


def projection_of(
    tree: exp.Query, source: FileSource, stored: pa.Schema, schema: pa.Schema, database: DuckDBPyConnection
) -> Projection | None:
    """Return the projection that makes a query's rows of a piece; None where a row of the result depends on several rows.

    Args:
        tree: the query, which reads PIECE; it has no WITH.
        stored: the files' columns.
        schema: the result's columns.
    """
    connection = cursor(database)
    connection.execute(f"CREATE TEMP VIEW {PIECE} AS {simplified(connection, source.sql)}")
    sql = simplified(connection, translate(tree, connection))
    connection.execute(f"DROP VIEW {PIECE}")
    plan = plan_over(connection, sql, stored)
    if any(step["name"] not in ROW_WISE for step in plan):
        return None
    return Projection(sql, stored, needed_by(plan, stored), schema, database)


def plan_over(connection: DuckDBPyConnection, sql: str, stored: pa.Schema) -> list[dict[str, Any]]:
    """Return the steps of DuckDB's plan of a query of PIECE."""
    connection.register(ROWS, stored.empty_table())
    return plan_of(connection, over_piece(sql, stored, stored.names))


def needed_by(plan: list[dict[str, Any]], stored: pa.Schema) -> tuple[str, ...]:
    """Return the columns of PIECE that a plan reads; one of them at least, which tells the number of rows."""
    used = {name for step in plan if step["name"] == "PYTHON_ARROW_SCAN" for name in listed(step)}
    return tuple(n for n in stored.names if any(u == n or u.startswith(f"{n}.") for u in used)) or tuple(stored.names[:1])


def over_piece(sql: str, stored: pa.Schema, needed: Sequence[str]) -> str:
    """Return a query whose PIECE is a table of the needed columns; the others are NULL and never read."""
    values = [(quoted(field.name) if field.name in needed else "NULL", field) for field in stored]
    items = ", ".join(f"CAST({value} AS {duckdb_type(field.type)}) AS {quoted(field.name)}" for value, field in values)
    return f"WITH {PIECE} AS (SELECT {items} FROM {ROWS}) {sql}"


def plan_of(connection: DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    """Return the steps of DuckDB's plan of a query."""
    row = connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchone()
    assert row is not None  # EXPLAIN has one row
    return list(steps(json.loads(row[1])[0]))


def steps(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for child in step["children"]:
        yield from steps(child)


def listed(step: dict[str, Any]) -> list[str]:
    """Return the columns that a scan reads; one alone stands without a list."""
    columns = step["extra_info"].get("Projections", [])
    return [columns] if isinstance(columns, str) else list(columns)


def projection_over(query: str, stored: pa.Schema) -> Projection:
    """Return the projection that makes a query's rows of tables in memory.

    Args:
        query: row-wise, in Spark SQL, over PIECE.
        stored: the columns of the tables, in Spark's types.

    Raises:
        StatementError: the query cannot run.
    """
    database = connect(1)
    connection = cursor(database)
    connection.register(ROWS, stored.empty_table())
    connection.execute(f"CREATE TEMP VIEW {PIECE} AS {over_piece(f'SELECT * FROM {PIECE}', stored, stored.names)}")
    with explained(query):
        sql = translate(parse_query(query), connection)
        schema = spark_schema(found_schema(connection, sql))
    sql = simplified(connection, sql)
    connection.close()
    return Projection(sql, stored, tuple(stored.names), schema, database)
