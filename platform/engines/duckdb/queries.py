"""Queries run on DuckDB, each on a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from ...cores import cores
from ...spark_types import spark_schema
from ..spark_sql.parsing import parse_query
from ..spark_sql.tree import QueryText
from .connection import connect, cursor, is_usable
from .failures import explained
from .relations import Relations
from .results import found_schema, streamed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Queries:
    """Runs queries over a session's relations.

    Queries run on all cores, or steadily: on one thread, where two runs give the same rows in the same order, which joins,
    groups and ties of an order do not on several.
    """

    def __init__(self, relations: Relations) -> None:
        self._relations = relations
        self._databases: dict[str, DuckDBPyConnection] = {}
        self._opening = threading.Lock()

    @property
    def wide(self) -> DuckDBPyConnection:
        """A database that uses all cores."""
        return self._database("wide", cores())

    @property
    def steady(self) -> DuckDBPyConnection:
        """A database whose queries run on the calling thread."""
        return self._database("steady", 1)

    def _database(self, name: str, threads: int) -> DuckDBPyConnection:
        """Return a database that was opened, or another where a failure has ended it."""
        with self._opening:
            found = self._databases.get(name)
            if found is None or not is_usable(found):
                found = self._databases[name] = connect(threads)
            return found

    @contextmanager
    def ready(self, query: QueryText, database: DuckDBPyConnection) -> Iterator[tuple[DuckDBPyConnection, str]]:
        """Yield a connection on which a query can start until the block ends, and the query in DuckDB's SQL.

        Raises:
            StatementError: the query cannot run.
        """
        connection = cursor(database)
        tree = parse_query(query.text)
        with self._relations.bound(tree, connection) as bound, explained(query.text, bound.columns):
            yield connection, bound.sql

    def schema(self, query: QueryText) -> pa.Schema:
        """Return a query's columns in Spark's types, without running it."""
        with self.ready(query, self.wide) as (connection, sql):
            return spark_schema(found_schema(connection, sql))

    def stream(self, query: QueryText, steady: bool = False) -> pa.RecordBatchReader:
        """Start a query and return its rows in Spark's types."""
        with self.ready(query, self.steady if steady else self.wide) as (connection, sql):
            return streamed(connection, sql, query.text)

    def close(self) -> None:
        """Close the databases that were opened."""
        while self._databases:
            self._databases.popitem()[1].close()
