"""The embedded engine: Spark SQL on DuckDB in memory, over files and the tables of a warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from ....warehouse.entries import SourceEntry
from ....warehouse.names import part_name
from ....warehouse.tables import Tables
from ....warehouse.views import Views
from ...errors import StatementError
from .. import parquet
from ..base import Scan, Staged, Statements, WriteFile
from ..nested import nested_scan
from ..parquet_scan import staged_scan
from ..spark_sql.limits import MOST_TOKENS
from ..spark_sql.parsing import parse_query
from ..spark_sql.statements import QUERY_STARTS, STATEMENTS, name_sql, read, read_name, read_query
from ..spark_sql.tree import QueryText
from .definitions import Definitions
from .files.memory import MemorySource
from .files.source import FileSource, check_names
from .queries import Queries
from .relations import Relations
from .scans import scan_of


class DuckDBEngine:
    """Runs Spark SQL in this process.

    Nothing is kept in DuckDB: tables and views are the warehouse's, temporary views the session's, and what a query reads is
    made known to DuckDB for the length of the query.

    Args:
        warehouse: the folder of tables, views and models; made by the first statement that writes.
    """

    name = "duckdb"
    statements = Statements((*QUERY_STARTS, *STATEMENTS), others=False, most_tokens=MOST_TOKENS)
    tasks = None

    def __init__(self, warehouse: Path) -> None:
        tables, views = Tables(warehouse), Views(warehouse)
        self._relations = Relations(tables, views)
        self._queries = Queries(self._relations)
        self._definitions = Definitions(self._queries, self._relations, tables, views)

    def execute(self, statement: str) -> pa.Table | None:
        """Run one statement."""
        parsed = read(statement)
        if isinstance(parsed, QueryText):
            return self._queries.stream(parsed).read_all()
        return self._definitions.run(parsed)

    def schema(self, query: str) -> pa.Schema:
        """Return the columns of a query."""
        return self._queries.schema(read_query(query))

    def reader(self, query: str) -> pa.RecordBatchReader:
        """Run a query and stream its rows."""
        return self._queries.stream(read_query(query))

    def scan(self, query: str) -> Scan | Staged:
        """Return how to read a query's result in place, or why it has to be staged."""
        scan = scan_of(read_query(query), self._relations, self._queries)
        return scan if not isinstance(scan, Staged) else nested_scan(query, scan.schema, self.scan) or scan

    def stage(self, query: str, folder: Path) -> Scan:
        """Run a query steadily and write its rows."""
        rows = self._queries.stream(read_query(query), steady=True)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder.absolute() / part_name(0)
        parquet.write(path, rows)
        return staged_scan((str(path),), rows.schema)

    def write_files(self, query: str, folder: Path, suffix: str, write: WriteFile) -> int:
        """Run a query and write its rows to one file."""
        return write(folder / part_name(0, suffix), self.reader(query))

    def register(self, name: str, files: Sequence[Path]) -> None:
        """Make Parquet files a temporary view.

        Raises:
            StatementError: the first file's columns do not differ by their names.
        """
        if files:
            check_names(str(files[0]))
        self._relations.temporary[name.lower()] = FileSource.of_files([str(file.absolute()) for file in files])

    def register_rows(self, name: str, rows: pa.Table) -> None:
        """Make rows in memory a temporary view; queries scan them where they are."""
        self._relations.temporary[name.lower()] = MemorySource(rows)

    def unregister(self, name: str) -> bool:
        """Drop a temporary view."""
        return self._relations.temporary.pop(name.lower(), None) is not None

    def write_table(self, name: str, query: str, replace: bool, format: str) -> int:
        """Write the rows of a query as a warehouse table, and return how many there are.

        Raises:
            StatementError: the format is another than parquet.
        """
        if format.lower() != "parquet":
            raise StatementError(f"Tables of the embedded engine are parquet, got {format}. Leave it out, or use Spark.")
        return self._definitions.write_table(read_name(name), read_query(query), replace)

    def relations(self) -> list[str]:
        """Return the names of tables and views."""
        return self._relations.names()

    def sources(self, query: str) -> tuple[SourceEntry, ...]:
        """Return what a query reads."""
        return tuple(self._relations.sources(parse_query(read_query(query).text)))

    def columns(self, relation: str) -> list[str]:
        """Return a table's or view's column names."""
        return list(self.schema(f"SELECT * FROM {name_sql(read_name(relation))}").names)

    def close(self) -> None:
        """Close the databases."""
        self._queries.close()
