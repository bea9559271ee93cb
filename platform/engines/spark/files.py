"""Files that Spark writes into a warehouse, which executors must share with the driver."""

from __future__ import annotations

import re
import shutil
import socket
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ....warehouse.durable import storing
from ....warehouse.names import part_name
from ....warehouse.scratch import scratch
from ...errors import ModelError
from ...quoting import quoted
from .. import parquet
from ..base import WriteFile
from ..tasks import unshared
from .application import Application
from .frames import configured, numbered, schema_of, typed
from .tasks import on_one_machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITTEN = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
WRITING = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS", "spark.sql.files.maxRecordsPerFile": "0"}


class SparkFiles:
    """Writes the rows of queries into folders of a warehouse.

    Args:
        application: whose tasks write.
        warehouse: the folder that has those folders.
    """

    def __init__(self, application: Application, warehouse: Path) -> None:
        self._application = application
        self._warehouse = warehouse.absolute()
        self._shared = on_one_machine(application.master)

    def write_parts(self, frame: DataFrame, folder: Path, columns: Sequence[str]) -> None:
        """Run a query and write its rows as Parquet, those with other values in some columns in files of their own.

        Raises:
            ModelError: see write.
        """
        kept = {f"xpsql_part_{number}": frame[quoted(column)] for number, column in enumerate(columns)}
        self.write(frame.withColumns(kept) if kept else frame, folder, tuple(kept))
        if next(folder.rglob("*.parquet"), None) is None:
            parquet.write(folder / part_name(0), schema_of(frame).empty_table().to_reader())

    def write(self, frame: DataFrame, folder: Path, apart: Sequence[str] = ()) -> None:
        """Run a query and write its rows as Parquet, a file for each partition, named in the order of rows.

        Args:
            apart: columns by which rows are divided into files; their values are in the names of folders only.

        Raises:
            ModelError: executors do not see the warehouse, and what they write would be lost.
        """
        self._check_shared()
        with configured(self._application.spark, WRITING):
            writer = frame.write.mode("append").options(**WRITTEN).partitionBy(*apart)
            writer.option("parquet.block.row.count.limit", parquet.ROW_GROUP_ROWS).parquet(location(folder))

    def write_with(self, frame: DataFrame, folder: Path, suffix: str, write: WriteFile) -> int:
        """Run a query, let every task write its rows to a file of the warehouse, and move these into a folder.

        Raises:
            ModelError: executors do not see the warehouse, or a file cannot be written.
        """
        self._check_shared()
        schema = schema_of(frame)
        with scratch(self._warehouse) as shared:

            def written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                path = shared / uuid.uuid4().hex  # a task may run twice
                rows = write(path, pa.RecordBatchReader.from_batches(schema, typed(batches, schema)))
                yield pa.record_batch({"path": [str(path)], "rows": [rows]})

            tasks = frame.toDF(*numbered(schema)).mapInArrow(written, "path string, rows bigint").collect()
            parts = [task for task in tasks if task["rows"]]
            with storing(folder):
                for number, task in enumerate(parts):
                    shutil.move(task["path"], folder / part_name(number, suffix))
            if not parts:
                return write(folder / part_name(0, suffix), schema.empty_table().to_reader())
            return sum(task["rows"] for task in parts)

    def _check_shared(self) -> None:
        """Ask as many tasks as run at once for a new folder of the warehouse; once in a session."""
        if self._shared:
            return
        with scratch(self._warehouse) as folder, self._application.described("xpsql: look for the warehouse"):

            def blind() -> Iterator[str]:
                if not folder.is_dir():
                    yield socket.gethostname()

            hosts = set(self._application.everywhere(blind))
        if hosts:
            raise ModelError(unshared(self._warehouse, ", ".join(sorted(hosts))))
        self._shared = True


def location(path: Path) -> str:
    """Return a local path as Spark writes to it, whatever its default filesystem: a URL in which nothing is encoded."""
    return f"file://{path.absolute()}"


def pattern(path: Path) -> str:
    """Return what Spark finds by a path that it reads, which it takes for a pattern: this path alone."""
    return re.sub(r"[\\*?\[\]{}]", r"\\\g<0>", location(path))
