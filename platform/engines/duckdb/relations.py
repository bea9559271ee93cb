"""Names of tables, views and files in a query, resolved to relations of DuckDB that live as long as the query."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from ....warehouse.entries import SourceEntry
from ....warehouse.tables import Tables
from ....warehouse.views import View, Views
from ...errors import NotAvailableError, Position, StatementError
from ...spark_types import quoted
from ..base import INTERNAL
from ..iceberg import of_catalog, source_of_table
from ..sources import as_of_in, named_in, names_in, relations_in, source_of, written
from ..spark_sql.dialect import position_of
from ..spark_sql.parsing import parse_query
from ..spark_sql.statements import FORMATS, unqualified
from ..unknown_names import absent
from .connection import cursor
from .failures import explained
from .files.iceberg import IcebergTables
from .files.memory import MemorySource
from .files.source import FileSource, open_source, source_of_files
from .results import simplified
from .translation import translate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Bound(NamedTuple):
    """A query in DuckDB's SQL, and a function for the names of its relations' columns."""

    sql: str
    columns: Callable[[], Iterable[str]]


class Relations:
    """What names mean in a session: temporary views, the warehouse's tables and views, and files by path.

    Attributes:
        temporary: the session's views, by name.
    """

    def __init__(self, tables: Tables, views: Views) -> None:
        self.temporary: dict[str, FileSource | MemorySource | View] = {}
        self._tables = tables
        self._views = views
        self._iceberg = IcebergTables()
        self._numbers = itertools.count(1)

    def names(self) -> list[str]:
        """Return the names that the user's queries can use, sorted."""
        names = {*self.temporary, *self._tables.names(), *self._views.names()}
        return sorted(name for name in names if not name.startswith(INTERNAL))

    def find(self, name: str, position: Position | None, qualified: bool = False) -> FileSource | MemorySource | View:
        """Return what a name stands for; temporary views come first, unless a database is named.

        Raises:
            StatementError: nothing has this name.
        """
        if not qualified and (found := self.temporary.get(name)) is not None:
            return found
        if (files := self._tables.files(name)) is not None:
            return FileSource.of_files(files)
        if (view := self._views.get(name)) is not None:
            return view
        raise absent("table or view", name, self.names(), position)

    def resolve(self, node: exp.Table, connection: DuckDBPyConnection) -> FileSource | MemorySource | View:
        """Return what a reference stands for.

        Raises:
            StatementError: nothing has this name, or a path does not exist.
        """
        position = position_of(node.this)
        parts = [part for part in (node.catalog, node.db, node.name) if part]
        as_of, format = as_of_in(node), node.db.lower()
        if of_catalog(parts):
            with explained(""):
                return self._iceberg.source(connection, parts, as_of, named_in(node), position)
        if as_of is not None and (format != "delta" or node.catalog):
            raise NotAvailableError(
                f"Tables of the warehouse and files keep no versions, so {'.'.join(parts)} has no {as_of.kind} AS OF. Tables "
                "of Delta and of Iceberg have them: delta.`folder` VERSION AS OF 3.",
                position,
            )
        if format in FORMATS and not node.catalog:
            options = {} if as_of is None else {f"{as_of.kind.lower()}asof": as_of.value}
            with explained(""):
                return open_source(connection, format, {"path": node.name, **options}, None, position, {})
        return self.find(unqualified(parts, position), position, bool(node.db))

    def check_view(self, query: exp.Query, view: str, temporary: bool) -> None:
        """Require that a view does not read itself nor, if it is persistent, a temporary view.

        Raises:
            StatementError: it does.
        """
        for node in names_in(query):
            if node.db.lower() in FORMATS or of_catalog([part for part in (node.catalog, node.db, node.name) if part]):
                continue
            name = node.name.lower()
            if name == view and not (temporary and node.db):
                raise StatementError(f"The view {view} would read itself.", position_of(node.this))
            if name in self.temporary and not node.db and not temporary:
                message = f"The view {view} would outlive the temporary view {name}. Use CREATE TEMPORARY VIEW."
                raise StatementError(message, position_of(node.this))

    def sources(self, query: exp.Expr) -> Iterator[SourceEntry]:
        """Yield what a query reads, by the names that it or a view uses.

        Raises:
            StatementError: nothing has such a name.
            OSError: a file is gone.
        """
        for node in relations_in(query):
            name, format, as_of = written(node), node.db.lower(), as_of_in(node)
            parts = [part for part in (node.catalog, node.db, node.name) if part]
            if of_catalog(parts):
                yield source_of_table(name, parts, as_of)
                continue
            if format in FORMATS and not node.catalog:
                yield source_of_files(format, name, node.name, as_of)
                continue
            own = unqualified(parts, None)
            found = self.find(own, None, bool(node.db))
            if isinstance(found, View):
                yield from self.sources(parse_query(found.query))
            elif isinstance(found, MemorySource):
                yield SourceEntry("frame", name)
            elif own in self.temporary and not node.db:
                yield source_of("files", name, found.files)
            else:
                yield source_of("table", name, found.files, str(self._tables.generation(own)))

    @contextmanager
    def bound(self, query: exp.Query, connection: DuckDBPyConnection) -> Iterator[Bound]:
        """Yield a query as DuckDB's SQL, whose relations exist until the block ends.

        Raises:
            StatementError: a name, or a view that it stands for, cannot be read.
        """
        import duckdb

        made: list[str] = []
        # A connection whose result is still being read takes no other statement.
        with cursor(connection) as own:
            try:
                yield self._bind(query, (own, connection), made, ())
            finally:
                with suppress(duckdb.FatalException):  # which ends the database, and its views with it
                    for name in reversed(made):
                        own.execute(f"DROP VIEW IF EXISTS {name}")

    def _bind(
        self, query: exp.Query, ways: tuple[DuckDBPyConnection, DuckDBPyConnection], made: list[str], within: tuple[str, ...]
    ) -> Bound:
        """Make the relations of a query, and return it as DuckDB's SQL over them.

        Args:
            ways: the connection on which relations are made, and the one on which the query runs.
        """
        connection, names = ways[0], []
        for node, relation in [(node, self.resolve(node, connection)) for node in names_in(query)]:
            name = f"xpsql_relation_{next(self._numbers)}"
            if isinstance(relation, View):
                self._make_view(relation, node.name, name, ways, made, within)
            else:
                sql = relation.sql if isinstance(relation, FileSource) else relation.open(*ways)
                with explained(""):
                    connection.execute(f"CREATE VIEW {name} AS {simplified(connection, sql)}")
            made.append(name)
            names.append(name)
            rename(node, name)
        return Bound(translate(query, connection), lambda: {c for n in names for c in connection.table(n).columns})

    def _make_view(
        self,
        view: View,
        shown: str,
        name: str,
        ways: tuple[DuckDBPyConnection, DuckDBPyConnection],
        made: list[str],
        within: tuple[str, ...],
    ) -> None:
        """Make a view of the session or the warehouse one of DuckDB, inside of the views that lead to it."""
        if view.query in within:
            raise StatementError(f"The view {shown} reads itself.")
        try:
            bound = self._bind(parse_query(view.query), ways, made, (*within, view.query))
            columns = f" ({', '.join(map(quoted, view.columns))})" if view.columns else ""
            with explained(view.query, bound.columns):
                ways[0].execute(f"CREATE VIEW {name}{columns} AS {bound.sql}")
        except StatementError as error:
            # Its position is one in the view's text, not in the statement's.
            raise StatementError(f"The view {shown} cannot be read: {error}") from error


def rename(node: exp.Table, name: str) -> None:
    """Let a reference read another relation; columns can still be qualified with its old name."""
    if not node.alias and node.db.lower() not in FORMATS:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
    for part in ("db", "catalog", "version"):
        node.set(part, None)
    node.set("this", exp.to_identifier(name))
