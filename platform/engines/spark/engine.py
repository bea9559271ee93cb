"""The Spark engine: queries as they are, run by a Spark session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from ....warehouse.entries import SourceEntry
from ....warehouse.scratch import scratch
from ... import udf
from ...errors import StatementError
from ...quoting import masked
from ...spark_types import spark_schema
from ..base import INTERNAL, Scan, Staged, Statements, WriteFile
from ..changes import WITH_REPLACE, exists
from ..nested import nested_scan
from ..parquet import ROW_GROUP_ROWS
from ..parquet_scan import staged_scan
from ..sources import relations_in, source_of, written
from ..spark_sql.lexer import insert_in, tokens_of
from ..spark_sql.parsing import parse_query
from ..spark_sql.passage import place
from ..spark_sql.statements import FORMATS, read_name
from ..spark_sql.tree import Name
from .actions import interruptible
from .applications import application_of, is_connect
from .calls import RewrittenStatement, sent
from .failures import explained
from .files import SparkFiles, pattern
from .frames import collected, counted, schema_of, streamed
from .places import check_places
from .plans import local_files, reading_of
from .start import check_running
from .tables import SparkTables
from .tasks import SparkTasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
# Words of Spark's grammar that also begin statements of ours.
COMMANDS = ("ALTER", "CREATE", "DESC", "DESCRIBE", "DROP", "EXPLAIN", "SHOW")
HEADLINE = 80
NO_TEXT = RewrittenStatement("")


class SparkEngine:
    """Runs Spark SQL in a Spark application.

    Args:
        spark: the session; its catalog, settings and temporary views are what queries see.
        warehouse: the folder of tables, views and models; made by the first statement that writes.
        owned: stop the application when the engine is closed.
    """

    name = "spark"
    statements = Statements((*QUERY_STARTS, *COMMANDS), others=True)  # those that extensions of Spark add

    def __init__(self, spark: SparkSession, warehouse: Path, owned: bool) -> None:
        self.spark = spark
        self.application = application_of(spark)
        check_running(self.application)
        self.tasks = SparkTasks(self.application)
        self._owned = owned
        self._warehouse = warehouse
        self._registered: dict[str, ExitStack] = {}
        self._files = SparkFiles(self.application, warehouse)
        self._tables = SparkTables(self.application, warehouse, self._files, self._frame)
        udf.register_in_spark(spark)

    @interruptible
    def execute(self, statement: str) -> pa.Table | None:
        """Run one statement."""
        text = sent(statement)
        with self._explained(text), self.application.described(f"xpsql: {headline(statement)}"):
            if (answer := self._tables.answer(statement)) is not None:
                return answer
            if self._tables.run(statement):
                return None
            check_places(statement)
            self._tables.prepare(statement)
            frame = self.spark.sql(text.text)
            return collected(frame) if frame.columns else None

    @interruptible
    def schema(self, query: str) -> pa.Schema:
        """Return the columns of a query."""
        return schema_of(self._frame(query))

    @interruptible
    def reader(self, query: str) -> pa.RecordBatchReader:
        """Run a query and stream its rows, a partition at a time."""
        frame = self._frame(query)

        def batches() -> Iterator[pa.RecordBatch]:
            with self._explained(sent(query)), self.application.described(f"xpsql: {headline(query)}"):
                yield from streamed(frame)

        return pa.RecordBatchReader.from_batches(schema_of(frame), batches())

    @interruptible
    def scan(self, query: str) -> Scan | Staged:
        """Return how to read a query's result in place, or why it has to be staged."""
        check_query(query)
        text = sent(query)
        with self._explained(text):
            self._tables.prepare(query)
            scan = reading_of(self.application, text.text)
        return scan if not isinstance(scan, Staged) else nested_scan(query, scan.schema, self.scan) or scan

    @interruptible
    def stage(self, query: str, folder: Path) -> Scan:
        """Run a query and write its rows; a file is a partition, and files are in the order of rows."""
        frame = self._frame(query)
        with self._explained(sent(query)), self.application.described("xpsql: stage the query"):
            self._files.write(frame, folder)
        files = tuple(str(path) for path in sorted(folder.absolute().glob("*.parquet")))
        return staged_scan(files, schema_of(frame))

    @interruptible
    def write_files(self, query: str, folder: Path, suffix: str, write: WriteFile) -> int:
        """Run a query and let the tasks that compute its rows write them, a file for each partition that has any."""
        frame = self._frame(query)
        with self._explained(sent(query)), self.application.described(f"xpsql: {headline(query)}"):
            return self._files.write_with(frame, folder, suffix, write)

    @interruptible
    def register(self, name: str, files: Sequence[Path]) -> None:
        """Make Parquet files a temporary view."""
        with self._explained(NO_TEXT):
            self.spark.read.parquet(*map(pattern, files)).createOrReplaceTempView(name)

    @interruptible
    def register_rows(self, name: str, rows: pa.Table) -> None:
        """Make rows a temporary view, of a Parquet file in the warehouse, where tasks on other machines read it."""
        self.unregister(name)
        with ExitStack() as stack:
            path = stack.enter_context(scratch(self._warehouse)) / "rows.parquet"
            pq.write_table(rows.cast(spark_schema(rows.schema)), path, row_group_size=ROW_GROUP_ROWS)
            self.register(name, [path])
            self._registered[name.lower()] = stack.pop_all()

    @interruptible
    def unregister(self, name: str) -> bool:
        """Drop a temporary view."""
        with self._explained(NO_TEXT):
            dropped = self.spark.catalog.dropTempView(name)
        if (files := self._registered.pop(name.lower(), None)) is not None:
            files.close()
        return dropped

    @interruptible
    def write_table(self, name: str, query: str, replace: bool, format: str) -> int:
        """Write the rows of a query as a table: one of the warehouse, or of Spark's catalog as the name or the format says."""
        frame, count = counted(self._frame(query))
        with self._explained(NO_TEXT), self.application.described(f"xpsql: write {name}"):
            if self._tables.are_default and format.lower() == "parquet" and (own := own_name(name)) is not None:
                self._tables.write(own, frame, replace)
            elif not replace and self.spark.catalog.tableExists(name):
                raise exists("table", Name(name), WITH_REPLACE)
            else:
                frame.write.mode("overwrite" if replace else "error").saveAsTable(name, format=format)
        return count()

    @interruptible
    def relations(self) -> list[str]:
        """Return the names of tables and views of the current database and the warehouse, and of the user's temporary views."""
        names = {*self._tables.names(), *(table.name for table in self.spark.catalog.listTables())}
        return sorted(name for name in names if not name.startswith(INTERNAL))

    @interruptible
    def sources(self, query: str) -> tuple[SourceEntry, ...]:
        """Return what a query reads; of files on other machines only how many there are."""
        found = []
        for node in relations_in(parse_query(query)):
            name, kind = written(node), "files" if node.db.lower() in FORMATS and not node.catalog else "table"
            files = local_files(self._frame(f"SELECT * FROM {name}").inputFiles())
            found.append(source_of(kind, name, files) if isinstance(files, tuple) else SourceEntry(kind, name))
        return tuple(found)

    def columns(self, relation: str) -> list[str]:
        """Return a table's or view's column names."""
        return list(self.schema(f"SELECT * FROM {relation}").names)

    def close(self) -> None:
        """Stop the application, if it is ours; where it goes on, leave no table of the warehouse in its catalog."""
        for files in self._registered.values():
            files.close()
        if is_connect(self.spark) and self.application.ended():
            cast(Any, self.spark).release_session_on_close = False  # PySpark would ask the server that is gone, for minutes
        elif not self._owned or is_connect(self.spark):
            self._tables.forget()
        if self._owned:
            self.spark.stop()

    def _explained(self, statement: RewrittenStatement) -> AbstractContextManager[None]:
        """Give the block in which failures of Spark become errors in our words; see explained."""
        check_running(self.application)
        return explained(statement, self.relations)

    def _frame(self, query: str) -> DataFrame:
        """Analyse a query.

        Raises:
            StatementError: it cannot run, or is another statement, which Spark would run at once.
        """
        check_query(query)
        text = sent(query)
        with self._explained(text):
            self._tables.prepare(query)
            return self.spark.sql(text.text)


def own_name(name: str) -> Name | None:
    """Return the name of a table of the warehouse; None for one of another database."""
    try:
        found = read_name(name)
    except StatementError:
        return None
    return None if found.within else found


def check_query(text: str) -> None:
    """Require that a text is a query.

    Raises:
        StatementError: it is another statement.
    """
    tokens = tokens_of(text)
    if (at := insert_in(tokens)) is not None:
        raise StatementError("Expected a query, got an INSERT.", place(text, tokens[at].start, tokens[at].end))
    if not tokens or tokens[0].text.upper() not in QUERY_STARTS:
        position = place(text, tokens[0].start, tokens[0].end) if tokens else None
        raise StatementError("Expected a query: SELECT, WITH or VALUES.", position)


def headline(statement: str) -> str:
    """Return the beginning of a statement on one line, for Spark's UI: without secrets, since it is logged."""
    line = " ".join(masked(statement).split())
    return line if len(line) <= HEADLINE else f"{line[: HEADLINE - 3]}..."
