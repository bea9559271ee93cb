"""Statements that make, fill, drop and list tables and views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import pyarrow as pa

from ....warehouse.tables import Change, Tables
from ....warehouse.views import View, Views
from ...errors import StatementError
from ...spark_types import quoted, spark_schema, type_words
from .. import parquet
from ..base import INTERNAL
from ..changes import (
    OR_REPLACE,
    WITH_REPLACE,
    check_columns,
    check_new_table,
    check_partition,
    check_partitioning,
    check_width,
    exists,
    fixed_values,
    partition_rows,
)
from ..removals import delete, drop_partitions
from ..spark_sql.columns import column_types
from ..spark_sql.parsing import parse_query
from ..spark_sql.statements import name_sql
from ..spark_sql.tree import (
    CreateTable,
    CreateView,
    Definition,
    Delete,
    Describe,
    Drop,
    DropPartition,
    FileView,
    Insert,
    InsertDirectory,
    Name,
    QueryText,
    ShowPartitions,
    ShowTables,
)
from ..unknown_names import absent
from .connection import cursor
from .directories import write_directory
from .failures import explained
from .files.source import open_source
from .inserts import fitted, grouped
from .open_tables import open_table, put
from .pieces import DuckDBPieces
from .queries import Queries
from .relations import Relations
from .results import found_schema, simplified, streamed

DESCRIPTION = pa.schema([(name, pa.string()) for name in ("col_name", "data_type", "comment")])


class Definitions:
    """Runs the statements that are not queries."""

    def __init__(self, queries: Queries, relations: Relations, tables: Tables, views: Views) -> None:
        self._queries = queries
        self._relations = relations
        self._tables = tables
        self._views = views

    def run(self, statement: Definition) -> pa.Table | None:
        """Run a statement; rows for SHOW and DESCRIBE, and the number of removed rows.

        Raises:
            StatementError: it cannot run; nothing changed.
            ModelError: the warehouse is not writable; nothing changed.
        """
        match statement:
            case ShowTables():
                return self._show(statement)
            case ShowPartitions():
                return self._show_partitions(statement.name)
            case Describe():
                return self._describe(statement)
            case Delete():
                return self._delete(statement)
            case DropPartition():
                return self._drop_partition(statement)
            case FileView():
                self._create_file_view(statement)
            case CreateView():
                self._create_view(statement)
            case CreateTable():
                self._create_table(statement)
            case Insert():
                self._insert(statement)
            case InsertDirectory():
                self._insert_directory(statement)
            case Drop():
                self._drop(statement)
        return None

    def write_table(self, name: Name, query: QueryText, replace: bool) -> int:
        """Make the rows of a query a table, and return how many there are."""
        if name.within:
            return put(name, self._queries.schema(query), (), lambda: self._queries.stream(query), replace)
        check_new_table(name, self._tables, self._views, replace, WITH_REPLACE)
        return self._put(name, self._queries.stream(query), "replace" if replace else "new")

    def _show(self, statement: ShowTables) -> pa.Table:
        temporary = set(self._relations.temporary)
        views = temporary | set(self._views.names())
        names = sorted(views if statement.kind == "VIEWS" else views | set(self._tables.names()))
        shown = [name for name in names if any(fnmatchcase(name, p) for p in statement.pattern.lower().split("|"))]
        column = "viewName" if statement.kind == "VIEWS" else "tableName"
        rows = [{"namespace": "" if n in temporary else "default", column: n, "isTemporary": n in temporary} for n in shown]
        fields = [("namespace", pa.string()), (column, pa.string()), ("isTemporary", pa.bool_())]
        return pa.Table.from_pylist(rows, pa.schema(fields))

    def _show_partitions(self, name: Name) -> pa.Table:
        self._relations.find(name.name, name.position)
        return partition_rows(name, self._tables)

    def _describe(self, statement: Describe) -> pa.Table:
        if statement.name is not None:
            self._relations.find(statement.name.name, statement.name.position)
        schema = self._queries.schema(statement.query or whole(statement.name))
        rows = [{"col_name": field.name, "data_type": type_words(field.type)} for field in schema]
        return pa.Table.from_pylist(rows, DESCRIPTION)

    def _create_file_view(self, statement: FileView) -> None:
        name = statement.name
        if name.name in self._relations.temporary and not statement.replace:
            raise exists("temporary view", name, OR_REPLACE)
        columns = None if statement.columns is None else column_types(statement.columns, name.position)
        connection = cursor(self._queries.wide)
        with explained(""):
            opened = open_source(connection, statement.format, statement.options, columns, name.position, statement.places)
        self._relations.temporary[name.name] = opened

    def _create_view(self, statement: CreateView) -> None:
        name, view = statement.name, View(statement.query.text.strip(), statement.columns)
        if name.name in (self._relations.temporary if statement.temporary else self._views.names()) and not statement.replace:
            if statement.if_absent:
                return
            raise exists("view", name, OR_REPLACE)
        if not statement.temporary and self._tables.exists(name.name):
            raise exists("table", name)
        if not name.name.startswith(INTERNAL):  # ours are read as soon as they are made, which shows errors in them
            check_width(statement, len(self._queries.schema(statement.query)))
        self._relations.check_view(parse_query(statement.query.text), name.name, statement.temporary)
        if statement.temporary:
            self._relations.temporary[name.name] = view
        else:
            self._views.put(name.name, view)

    def _create_table(self, statement: CreateTable) -> None:
        name = statement.name
        if name.within:
            self._create_open(statement)
            return
        if statement.if_absent and self._tables.exists(name.name):
            return
        check_new_table(name, self._tables, self._views, statement.replace, OR_REPLACE)
        if statement.query is None:
            sql = self._no_rows(statement)
            schema = spark_schema(found_schema(self._queries.wide, sql))
            by = check_partitioning(name, statement.partitioned_by, schema)
            rows = streamed(cursor(self._queries.wide), grouped(sql, schema.names, by), "")
        elif not statement.partitioned_by:
            by, rows = (), self._queries.stream(statement.query)
        else:
            schema = self._queries.schema(statement.query)
            check_columns(schema)
            by = check_partitioning(name, statement.partitioned_by, schema)
            with self._queries.ready(statement.query, self._queries.wide) as (connection, sql):
                rows = streamed(connection, grouped(sql, schema.names, by), statement.query.text)
        self._put(name, rows, "replace" if statement.replace else "new", by)

    def _create_open(self, statement: CreateTable) -> None:
        name, query = statement.name, statement.query
        if statement.if_absent and open_table(name).exists():
            return
        if query is None:
            schema = spark_schema(found_schema(self._queries.wide, self._no_rows(statement)))
        else:
            schema = self._queries.schema(query)
        by = check_partitioning(name, statement.partitioned_by, schema)
        put(name, schema, by, None if query is None else lambda: self._queries.stream(query), statement.replace)

    def _insert_open(self, statement: Insert) -> None:
        table = open_table(statement.name)
        schema, by = table.schema(), table.partitioned_by()
        check_partition(statement, by)
        fixed = fixed_values(statement.name, statement.fixed, schema, self._rows)

        def rows() -> pa.RecordBatchReader:
            with self._queries.ready(statement.query, self._queries.wide) as (connection, sql):
                return streamed(connection, fitted(connection, sql, schema, statement, fixed), statement.query.text)

        table.write(rows, statement.overwrite, fixed)

    def _no_rows(self, statement: CreateTable) -> str:
        """Return DuckDB's query of no rows with the columns that a statement lists."""
        columns = column_types(statement.columns or "", statement.name.position)
        items = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(column)}" for column, kind in columns.items())
        return f"SELECT {items} LIMIT 0"

    def _insert(self, statement: Insert) -> None:
        name = statement.name
        if name.within:
            self._insert_open(statement)
            return
        schema = self._schema_of(name, "INSERT")
        by = self._tables.partitioned_by(name.name)
        check_partition(statement, by)
        fixed = fixed_values(name, statement.fixed, schema, self._rows)
        with self._queries.ready(statement.query, self._queries.wide) as (connection, sql):
            made = grouped(fitted(connection, sql, schema, statement, fixed), schema.names, by)
            rows = streamed(connection, made, statement.query.text)
        self._put(name, rows, "overwrite" if statement.overwrite else "append", by, fixed)

    def _drop_partition(self, statement: DropPartition) -> pa.Table:
        return drop_partitions(statement, self._schema_of(statement.name, "ALTER TABLE"), self._tables, self._rows)

    def _delete(self, statement: Delete) -> pa.Table:
        self._schema_of(statement.name, "DELETE")
        return delete(statement, self._tables, DuckDBPieces(self._queries, self._relations))

    def _schema_of(self, name: Name, verb: str) -> pa.Schema:
        """Return the columns of a table that a statement changes.

        Raises:
            StatementError: the warehouse has no such table.
        """
        if not self._tables.exists(name.name):
            self._relations.find(name.name, name.position)
            raise StatementError(f"{name.name} is a view; {verb} takes a table.", name.position)
        return self._queries.schema(whole(name))

    def _rows(self, query: str) -> pa.Table:
        return self._queries.stream(QueryText(query)).read_all()

    def _insert_directory(self, statement: InsertDirectory) -> None:
        text = statement.query.text
        with self._queries.ready(statement.query, self._queries.wide) as (connection, sql), explained(text):
            write_directory(connection, simplified(connection, sql), statement)

    def _drop(self, statement: Drop) -> None:
        name = statement.name
        if statement.kind == "TABLE" and self._tables.exists(name.name):
            self._tables.drop(name.name)
        elif statement.kind == "VIEW" and name.name in self._relations.temporary:
            del self._relations.temporary[name.name]
        elif statement.kind == "VIEW" and name.name in self._views.names():
            self._views.drop(name.name)
        elif name.name in self._relations.names():
            other = "VIEW" if statement.kind == "TABLE" else "TABLE"
            raise StatementError(f"{name.name} is a {other.lower()}. Use DROP {other}.", name.position)
        elif not statement.if_exists:
            raise absent(statement.kind.lower(), name.name, self._relations.names(), name.position)

    def _put(
        self,
        name: Name,
        rows: pa.RecordBatchReader,
        change: Change,
        partitioned_by: Sequence[str] = (),
        only: Mapping[str, pa.Scalar[pa.DataType]] | None = None,
    ) -> int:
        """Write rows to a file, make it a table or a part of one, and return how many rows there are."""
        check_columns(rows.schema)
        with self._tables.draft() as draft:
            count = parquet.write_parts(draft, rows, partitioned_by)
            if not self._tables.put(name.name, draft, change, partitioned_by, only):
                known = self._relations.names()
                raise exists("table", name) if change == "new" else absent("table", name.name, known, name.position)
        return count


def whole(name: Name | None) -> QueryText:
    """Return the query of all rows of a name."""
    assert name is not None  # the grammar has a name where it has no query
    return QueryText(f"SELECT * FROM {name_sql(name)}")
