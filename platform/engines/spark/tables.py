"""The warehouse's tables and views in Spark's catalog.

Where Spark keeps its catalog in memory, nothing in it would outlive the session. There the database `default` is the warehouse:
what other sessions and engines have written is made known to Spark when a statement names it, and statements that make, fill or
drop a table or view change the warehouse. A catalog that lasts (Hive's, or a plugin's) is left alone: statements are Spark's.

Each name that is made known carries in its comment whose state it is, so that sessions of one application agree:

    xpsql <warehouse> <checksum of the table's list of files, or of the view's query>

A table has two paths there, its folder and its manifest, where Spark finds no rows: a table of several paths Spark only reads,
whichever statement or program would write. What would change a name in the catalog only is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ....warehouse.tables import Change, Tables
from ....warehouse.views import View, Views
from ...errors import ModelError, StatementError
from ...quoting import quoted
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
    places_of,
)
from ..removals import delete, drop_partitions
from ..spark_sql.statements import read
from ..spark_sql.tree import CreateTable, CreateView, Delete, Drop, DropPartition, Insert, Name, ShowPartitions, Statement
from ..unknown_names import absent
from .application import Application
from .catalog import CatalogNames
from .catalog_names import SPARKS, changed_name, full, state_of, words_of
from .failures import ONLY_OURS
from .files import SparkFiles
from .frames import collected, instants, schema_of
from .pieces import SparkPieces

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    Values = Mapping[str, pa.Scalar[pa.DataType]]

VALID = re.compile(r"[a-z0-9_]+")
Analyse = Callable[[str], "DataFrame"]


class SparkTables:
    """Tables and views of a warehouse, as statements on Spark see and change them.

    Args:
        application: whose session's statements see them.
        warehouse: the folder of tables and views.
        files: writes into it.
        analyse: turns a query of the user into a frame.
    """

    def __init__(self, application: Application, warehouse: Path, files: SparkFiles, analyse: Analyse) -> None:
        self._application, self._spark = application, (spark := application.spark)
        self._files = files
        self._stamp = f"xpsql {warehouse.absolute()} "
        self._catalog = CatalogNames(spark, self._stamp)
        self._tables = Tables(warehouse)
        self._views = Views(warehouse)
        self._analyse = analyse
        self._shown: dict[str, str] = {}
        self._refining: set[str] = set()
        self._in_memory = spark.conf.get("spark.sql.catalogImplementation") == "in-memory"

    @property
    def are_default(self) -> bool:
        """Whether a name without a database means one of the warehouse."""
        catalog = self._spark.catalog
        return self._in_memory and catalog.currentCatalog() == SPARKS and catalog.currentDatabase() == "default"

    def names(self) -> list[str]:
        """Return the names of the warehouse's tables and views that Spark's catalog takes."""
        names = [*self._tables.names(), *self._views.names()] if self._in_memory else []
        return [name for name in names if VALID.fullmatch(name)]

    def prepare(self, text: str) -> None:
        """Register the names of a statement in Spark, and update registered ones.

        Raises:
            StatementError: a view that the statement names cannot be read.
        """
        if not self._in_memory:
            return
        names, words = set(self.names()), words_of(text)
        for name in self._shown.keys() - names:
            self._hide(name)
        named: dict[str, None] = {}
        self._add_named(names if "show" in words else words, names, named)
        for name in named:
            self._show(name, asked=True)
        for name in self._shown.keys() & names - named.keys():
            try:
                self._show(name, asked=False)
            except StatementError:
                self._hide(name)  # a statement that names it will report why it cannot be read

    def _add_named(self, words: set[str], names: set[str], found: dict[str, None]) -> None:
        """Add the names among some words to those found, each after the names that its view reads."""
        for name in sorted(words & names - found.keys()):
            if name not in found and (view := self._views.get(name)) is not None:
                self._add_named(words_of(view.query) - {name}, names - {name}, found)
            found[name] = None

    def run(self, text: str) -> bool:
        """Run a statement that changes the warehouse; return whether this one does.

        Raises:
            StatementError: it cannot run, or would change only Spark's view of the warehouse, not the warehouse.
        """
        match self._ours(text) if self.are_default else None:
            case CreateTable() as statement:
                self._create_table(statement)
            case Insert() as statement:
                self._insert(statement)
            case CreateView() as statement:
                self._create_view(statement)
            case Drop() as statement:
                self._drop(statement)
            case _:
                self._refuse_change(text)
                return False
        return True

    def answer(self, text: str) -> pa.Table | None:
        """Return the rows of a statement on partitions or rows of a table of the warehouse; None for other statements."""
        try:
            statement = read(text) if self.are_default else None
        except StatementError:
            return None
        if not isinstance(statement, ShowPartitions | Delete | DropPartition) or self._is_other(statement.name):
            return None
        name = statement.name
        match statement:
            case ShowPartitions():
                return partition_rows(name, self._tables)
            case Delete():
                rows = delete(statement, self._tables, SparkPieces(self._spark, self._files, self._analyse))
            case DropPartition():
                rows = drop_partitions(statement, self._schema_of(name), self._tables, self._rows)
        self._show(name.name, asked=True)
        return rows

    def write(self, name: Name, frame: DataFrame, replace: bool) -> None:
        """Make the rows of a frame a table."""
        self._check_new(name, replace, WITH_REPLACE)
        self._save(name, frame, "replace" if replace else "new")

    def forget(self) -> None:
        """Remove registered names from Spark's catalog."""
        if not self._in_memory or self._application.ended():
            return  # a catalog in memory ends with the application
        for name in list(self._shown):
            if (self._catalog.known(name) or "").startswith(self._stamp):
                self._hide(name)

    def _ours(self, text: str) -> Statement | None:
        """Return a statement that changes tables or views of the warehouse; None for all others."""
        try:
            statement = read(text)
        except StatementError:
            return None  # a statement that only Spark has, or that is refused
        match statement:
            case CreateTable():
                return None if statement.name.within else statement
            case CreateView(temporary=False):
                return statement
            case Insert():
                return None if statement.name.within or not self._tables.exists(statement.name.name) else statement
            case Drop():
                temporary = statement.kind == "VIEW" and self._is_temporary(statement.name)
                return statement if statement.name.name in self.names() and not temporary else None
        return None

    def _refuse_change(self, text: str) -> None:
        """Refuse a statement that Spark would run on its catalog, where it names a table or view of the warehouse."""
        if (name := changed_name(text)) is None:
            return
        database = name.qualified and self._spark.catalog.currentCatalog() == SPARKS
        if name.name in self.names() and (database or (self.are_default and not self._is_temporary(name))):
            raise StatementError(f"This statement does not change {name.name}. {ONLY_OURS}", name.position)

    def _schema_of(self, name: Name) -> pa.Schema:
        self._show(name.name, asked=True)
        return schema_of(self._spark.table(full(name.name)))

    def _is_other(self, name: Name) -> bool:
        """Return whether a name means no table of the warehouse."""
        return not self._tables.exists(name.name) or (not name.qualified and self._is_temporary(name))

    def _is_temporary(self, name: Name) -> bool:
        """Return whether a name means a view of the session, which hides one of the warehouse."""
        catalog = self._spark.catalog
        return catalog.tableExists(quoted(name.name)) and catalog.getTable(quoted(name.name)).isTemporary

    def _create_table(self, statement: CreateTable) -> None:
        name = statement.name
        if statement.if_absent and self._tables.exists(name.name):
            return
        self._check_new(name, statement.replace, OR_REPLACE)
        if statement.query is not None:
            frame = self._analyse(statement.query.text)
        else:
            frame = self._spark.createDataFrame([], (statement.columns or "").strip())
        check_columns(schema := schema_of(frame))
        by = check_partitioning(name, statement.partitioned_by, schema)
        ordered = frame.select(*(quoted(c) for c in (*(c for c in schema.names if c not in by), *by)))
        self._save(name, ordered, "replace" if statement.replace else "new", by)

    def _insert(self, statement: Insert) -> None:
        schema, by = self._schema_of(statement.name), self._tables.partitioned_by(statement.name.name)
        table = self._spark.table(full(statement.name.name)).schema
        check_partition(statement, by)
        fixed = fixed_values(statement.name, statement.fixed, schema, self._rows)
        found = self._analyse(statement.query.text)
        places = places_of(statement, found.columns, table.names)
        values = instants(found.toDF(*(f"c{i}" for i in range(len(places)))))
        items = []
        for field in table.fields:
            place, given = places.get(field.name.lower()), statement.fixed.get(field.name.lower(), "NULL")
            value = given if place is None else f"c{place}"
            items.append(f"CAST({value} AS {field.dataType.simpleString()}) AS {quoted(field.name)}")
        self._save(statement.name, values.selectExpr(*items), "overwrite" if statement.overwrite else "append", by, fixed)

    def _create_view(self, statement: CreateView) -> None:
        name = statement.name
        if name.name in self._views.names() and not statement.replace:
            if statement.if_absent:
                return
            raise exists("view", name, OR_REPLACE)
        if self._tables.exists(name.name):
            raise exists("table", name)
        self._check_name(name)
        check_width(statement, len(self._analyse(statement.query.text).columns))
        view = View(statement.query.text.strip(), statement.columns)
        state = state_of(view)
        self._catalog.define(name.name, view, state)  # Spark refuses a view of itself, and of what ends with the session
        self._views.put(name.name, view)
        self._shown[name.name] = state

    def _drop(self, statement: Drop) -> None:
        name = statement.name
        kind = "TABLE" if self._tables.exists(name.name) else "VIEW"
        if kind != statement.kind:
            raise StatementError(f"{name.name} is a {kind.lower()}. Use DROP {kind}.", name.position)
        self._hide(name.name)
        if kind == "TABLE":
            self._tables.drop(name.name)
        else:
            self._views.drop(name.name)

    def _check_new(self, name: Name, replace: bool, way: str) -> None:
        check_new_table(name, self._tables, self._views, replace, way)
        self._check_name(name)

    def _check_name(self, name: Name) -> None:
        """Require that Spark's catalog takes a name, and has no table of its own by it."""
        if not VALID.fullmatch(name.name):
            raise StatementError("On Spark, a table's name has letters, digits and _ only.", name.position)
        if self._catalog.known(name.name) == "":
            raise StatementError(
                f"Spark's catalog has a table {name.name} of its own. Drop it, or choose another name.", name.position
            )

    def _rows(self, query: str) -> pa.Table:
        return collected(self._analyse(query))

    def _save(self, name: Name, frame: DataFrame, change: Change, by: Sequence[str] = (), only: Values | None = None) -> None:
        """Write the rows of a frame to files, a partition each, and make them a table or a part of one."""
        check_columns(schema_of(frame))
        with self._tables.draft() as draft:
            self._files.write_parts(instants(frame), draft, by)
            self._put(name, draft, change, by, only)

    def _put(self, name: Name, draft: Path, change: Change, by: Sequence[str], only: Values | None) -> None:
        if not self._tables.put(name.name, draft, change, by, only):
            raise exists("table", name) if change == "new" else absent("table", name.name, self.names(), name.position)
        with suppress(ModelError):  # the rows are in the table; the next statement that names it tries again
            self._show(name.name, asked=True)

    def _show(self, name: str, asked: bool) -> None:
        """Make a table or view known, in its present state, and forget one that is gone.

        Args:
            asked: look into the catalog too, where another session may have changed what this one has shown.
        """
        from pyspark.errors import AnalysisException

        view, files = self._views.get(name), self._tables.linked(name)
        state = state_of(view or files)
        if self._shown.get(name) == state and not asked:
            return
        try:
            self._make_known(name, view, files, state)
        except (FileNotFoundError, AnalysisException):
            if self._tables.linked(name) == files:
                raise
            self._show(name, asked)  # another process changed it meanwhile

    def _make_known(self, name: str, view: View | None, files: tuple[str, ...] | None, state: str) -> None:
        known = self._catalog.known(name)
        if view is None and files is None:
            self._hide(name)
            return
        if view is not None and known != "":
            self._refine(name, view, state)
        elif files is not None and known == self._stamp + state:
            self._catalog.refresh(name)  # another session showed it; this one may remember files that are gone
        elif files is not None and known != "":
            self._hide(name)
            self._catalog.create(name, files, state)
        self._shown[name] = state

    def _refine(self, name: str, view: View, state: str) -> None:
        """Define a view again: what it reads may have other columns by now."""
        if name in self._refining:
            raise StatementError(f"The view {name} reads itself.")
        self._refining.add(name)
        try:
            self._analyse(view.query)
            self._catalog.define(name, view, state)
        except StatementError as error:
            # Its position is one in the view's text, not in the statement's.
            raise StatementError(f"The view {name} cannot be read: {error}") from error
        finally:
            self._refining.discard(name)

    def _hide(self, name: str) -> None:
        """Remove a name from Spark's catalog, where it is one of a warehouse."""
        self._shown.pop(name, None)
        self._catalog.remove(name)
