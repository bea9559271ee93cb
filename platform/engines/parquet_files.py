"""Parquet files read piece by piece: those of this machine are mapped, and one that somebody cuts off meanwhile is told."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ...warehouse.mapped import mapping_of
from ..objects import is_object, located

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from ...warehouse._mapping import Mapping

CUT_OFF = "it was cut off while it was read"


class OpenParquet(NamedTuple):
    """A Parquet file that is open.

    Attributes:
        file: as Arrow reads it.
        memory: its bytes, where it is mapped.
    """

    file: pq.ParquetFile
    memory: Mapping | None

    def batches(self, rows: int, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group.

        Raises:
            OSError: the file was cut off.
        """
        for batch in self.file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=pa.cpu_count() > 1):
            self.check()
            yield batch

    def check(self) -> None:
        """Refuse a file that was cut off: what was read of it may have been zeros.

        Raises:
            OSError: it was.
        """
        if self.memory is not None and self.memory.cut_off:
            raise OSError(CUT_OFF)


@contextmanager
def parquet_file(path: str, **how: Any) -> Iterator[OpenParquet]:
    """Open a Parquet file; what is near each other in it is asked of a store at once.

    Raises:
        OSError: it cannot be opened, or was cut off meanwhile.
    """
    import pyarrow.parquet as pq

    if is_object(path):
        files, key = located(path)
        with files.open_input_file(key) as source, pq.ParquetFile(source, pre_buffer=True, **how) as file:
            yield OpenParquet(file, None)
        return
    with Path(path).open("rb", buffering=0) as opened:
        memory = mapping_of(opened, os.fstat(opened.fileno()).st_size)
    try:
        with pq.ParquetFile(pa.BufferReader(pa.py_buffer(memory)), **how) as file:
            found = OpenParquet(file, memory)
            found.check()
            yield found
    except (OSError, pa.ArrowException) as error:
        if memory.cut_off:
            raise OSError(CUT_OFF) from error
        raise


def metadata_of(path: str) -> pq.FileMetaData:
    """Return the metadata of a Parquet file."""
    with parquet_file(path) as opened:
        return opened.file.metadata


def schema_of(path: str) -> pa.Schema:
    """Return the columns of a Parquet file."""
    with parquet_file(path) as opened:
        return opened.file.schema_arrow
