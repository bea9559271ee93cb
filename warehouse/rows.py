"""The rows of a version on disk: Parquet files that Spark and DuckDB read as they are.

A table's folder `rows/<table>/` holds `part-<number>.parquet`. Columns: `key` int64 (the bit pattern of the hash), `slot`
uint16, `count`, `updates`, `shows`, `clicks` uint32, `last_seen` uint32 (seconds of event TIME, 0: never told), then float
columns: float32 where a row has one. Where it has several, what ML.WEIGHTS shows is a fixed_size_list<float32>, and what only
trainings read, the state of an optimizer, is a fixed_size_binary of them, little-endian: Parquet writes it five times as fast.
Spark reads uint16 as INT, uint32 as BIGINT, the lists as ARRAY<FLOAT>, the state as BINARY.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from ..platform.errors import ModelError
from .durable import storing, sync
from .manifest import TableEntry

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 1 << 28
# Batches that stay in the cache are read several times faster than whole row groups.
READ_ROWS = 1 << 16
READ_BYTES = 1 << 20

STATISTICS = (
    ("key", pa.int64()),
    ("slot", pa.uint16()),
    ("count", pa.uint32()),
    ("updates", pa.uint32()),
    ("shows", pa.uint32()),
    ("clicks", pa.uint32()),
    ("last_seen", pa.uint32()),
)

SHOWN = ("w", "offered")


def rows_schema(table: TableEntry) -> pa.Schema:
    """Return the Arrow schema of a table's rows: key, slot and statistics, then the float columns in their order."""
    floats = [pa.field(name, _float_type(name, dim), nullable=False) for name, dim in table.columns.items()]
    return pa.schema([*(pa.field(name, type_, nullable=False) for name, type_ in STATISTICS), *floats])


def _float_type(name: str, dim: int) -> pa.DataType:
    if dim == 1:
        return pa.float32()
    return pa.list_(pa.field("element", pa.float32(), nullable=False), dim) if name in SHOWN else pa.binary(4 * dim)


class RowWriter:
    """Writes one part of a table's rows, in row groups of about a million, or 256 MiB where rows are wide; durable once closed.

    Args:
        path: of the file, in a folder that is there: who writes late leaves nothing in one that has been removed.
        table: the table's name and columns.

    Raises:
        ModelError: the disk is full, or the folder is not writable; the message names the file.
    """

    def __init__(self, path: Path, table: TableEntry) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self.schema = rows_schema(table)
        self.rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._row_bytes = sum(kind.bit_width // 8 for _, kind in STATISTICS) + 4 * sum(table.columns.values())
        with storing(self.path):
            self._writer = pq.ParquetWriter(
                self.path, self.schema, compression="none", use_dictionary=["slot"], write_statistics=False
            )

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, in the schema of the table; the batch may be held until its row group is full."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_rows * self._row_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._waiting, self.schema)
        with storing(self.path):
            self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._waiting_rows = [], 0

    def close(self) -> None:
        """Write what waits and return when all of it is on the disk."""
        if self._waiting:
            self._flush()
        with storing(self.path):
            self._writer.close()
            sync(self.path)
            sync(self.path.parent)

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        try:
            self._writer.close()
        except OSError as second:
            error.add_note(f"Closing {self.path} failed as well: {second}")


def row_files(folder: Path) -> list[Path]:
    """Return the files of a table's folder, in order of their numbers; at least one.

    Raises:
        ModelError: there is none: the version is gone.
    """
    files = sorted(folder.glob("part-*.parquet"))
    if not files:
        raise _gone(folder)
    if links := [path for path in files if path.is_symlink()]:
        raise ModelError(f"{links[0]} is damaged: a file of rows is no link. Restore it from a backup.")
    return files


def read_rows(folder: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """Read the rows of a table's folder, 65,536 or fewer at a time; all columns, or those named, in that order.

    Raises:
        ModelError: a file is damaged, or went while it was read; the message names it.
    """
    import pyarrow.parquet as pq

    for path in row_files(folder):
        # By default whole row groups are read before the first row arrives.
        with reading(path), pq.ParquetFile(path, pre_buffer=False, buffer_size=READ_BYTES) as file:
            for batch in file.iter_batches(READ_ROWS, columns=None if columns is None else list(columns)):
                yield batch if columns is None else batch.select(list(columns))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the errors of reading a file of rows into a ModelError that names it and the remedy."""
    try:
        yield
    except FileNotFoundError as error:
        raise _gone(path) from error
    except (OSError, pa.ArrowException) as error:
        raise ModelError(
            f"{path} is damaged: {error}. Restore it from a backup, or promote another version of the model."
        ) from error


def _gone(path: Path) -> ModelError:
    return ModelError(f"{path} is gone: its version was dropped while it was read. Read another one.")
