"""Files of a table of the warehouse, queried one by one or together by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..base import internal_name
from ..removals import FILE, ROW, Over
from ..spark_sql.tree import QueryText
from .files import SparkFiles, pattern
from .frames import instants, schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class SparkPieces:
    """Files on Spark; see Pieces.

    Args:
        files: writes into the warehouse.
        analyse: turns a query into a frame.
    """

    def __init__(self, spark: SparkSession, files: SparkFiles, analyse: Callable[[str], DataFrame]) -> None:
        self._spark = spark
        self._files = files
        self._analyse = analyse

    def schema(self, query: QueryText) -> pa.Schema:
        """Return the columns of a query."""
        return schema_of(self._analyse(query.text))

    def values(self, files: Sequence[str], query: Over) -> list[str]:
        """Run a query of one column over files."""
        with self._made(files) as name:
            return [row[0] for row in self._analyse(query(name)).collect()]

    def write(self, file: str, query: Over, folder: Path) -> Path:
        """Write the rows of a query over a file."""
        with self._made([file]) as name:
            rows = self._analyse(query(name)).coalesce(1).sortWithinPartitions(ROW).drop(ROW)
            self._files.write_parts(instants(rows), folder / Path(file).stem, ())
        return next((folder / Path(file).stem).glob("*.parquet"))

    @contextmanager
    def _made(self, files: Sequence[str]) -> Iterator[str]:
        """Yield the name of a view of files, which lasts as long as the block."""
        name = internal_name("piece")
        rows = self._spark.read.parquet(*(pattern(Path(file)) for file in files))
        rows.selectExpr("*", f"_metadata.file_path AS {FILE}", f"_metadata.row_index AS {ROW}").createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self._spark.catalog.dropTempView(name)
