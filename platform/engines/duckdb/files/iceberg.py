"""Tables of Iceberg as relations: their files read in place, or their rows as pyiceberg reads them."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .....warehouse.durable import clear
from .....warehouse.names import part_name
from ....errors import NotAvailableError, Position
from ....spark_types import spark_schema
from ... import parquet
from ...as_of import AsOf
from ...iceberg import in_place, planned, snapshot_of, table_of
from .objects import let_read
from .source import FileSource

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table


class IcebergTables:
    """Tables that a session has read; what cannot be read in place is written to temporary files once for a snapshot and some
    columns."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._read: dict[tuple[object, ...], FileSource] = {}

    def source(
        self,
        connection: DuckDBPyConnection,
        parts: Sequence[str],
        as_of: AsOf | None,
        named: frozenset[str] | None,
        position: Position | None,
    ) -> FileSource:
        """Return the rows of a table.

        Args:
            named: the columns that a query may name, in lower case; None: all.

        Raises:
            NotAvailableError: pyiceberg is not installed, or does not read the table's format.
            StatementError: there is no such table or snapshot, or it cannot be read.
        """
        name = ".".join(parts)
        table = table_of(parts, position)
        snapshot = snapshot_of(table, name, as_of, position)
        schema = table.schema() if snapshot is None or as_of is None else table.schemas()[snapshot.schema_id or 0]
        plan = planned(table, snapshot)
        if plan.files and in_place(table, schema, plan):
            files = tuple(file.path for file in plan.files)
            let_read(connection, files)
            return FileSource.of_files(files)
        number = None if snapshot is None else snapshot.snapshot_id
        columns = tuple(c for c in schema.column_names if named is None or c.lower() in named) or tuple(schema.column_names[:1])
        key = (*parts, table.metadata.table_uuid, number, schema.schema_id, columns)
        if key not in self._read:
            # A scan of a snapshot has the columns of its time.
            self._read[key] = self._written(table, name, None if as_of is None else number, columns, position)
        return self._read[key]

    def _written(
        self, table: Table, name: str, snapshot: int | None, columns: tuple[str, ...], position: Position | None
    ) -> FileSource:
        """Write the rows of a snapshot to a temporary file, and return its source: one that no later process finds."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="xpsql-iceberg-"))
            weakref.finalize(self, clear, self._folder)
        path = self._folder / part_name(len(self._read))
        try:
            rows = table.scan(selected_fields=columns, snapshot_id=snapshot).to_arrow_batch_reader()
            schema = spark_schema(rows.schema)
            made = pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows))
            parquet.write(path, made)
        except (NotImplementedError, ValueError, OSError, pa.ArrowException) as error:
            remedy = "Compact it (rewrite_data_files), or read it on Spark"
            raise NotAvailableError(f"{name} cannot be read here: {error}. {remedy}.", position) from error
        return FileSource(FileSource.of_files([str(path)]).sql)
