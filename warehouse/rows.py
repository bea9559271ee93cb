"""The rows of a version on disk: Parquet files that Spark and DuckDB read as they are.

A table's folder `rows/<table>/` holds `part-<number>.parquet`. Columns: `key` int64 (the bit pattern of the hash), `slot`
uint16, `count`, `updates`, `shows`, `clicks` uint32, `last_seen` uint32 (seconds of event TIME, 0: never given), then float
columns: float32 where a row has one. Where it has several, what ML.WEIGHTS shows is a fixed_size_list<float32>, and what only
trainings read, the state of an optimizer, is a fixed_size_binary of them, little-endian: Parquet writes it five times as fast.
Spark reads uint16 as INT, uint32 as BIGINT, the lists as ARRAY<FLOAT>, the state as BINARY.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..platform.errors import ModelError
from .checksums import NUM_SLICES, SLICE_SHIFT, VersionFile, seal
from .durable import creating, storing, sync
from .entries import TableEntry

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 1 << 28
# Batches that stay in the cache are read several times faster than whole row groups.
READ_ROWS = 1 << 16
READ_BYTES = 1 << 20
SMALL_BYTES = 1 << 22

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
TOMBSTONES = pa.schema([pa.field("key", pa.int64(), nullable=False)])


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
        path: of the file, in an existing folder: a late writer leaves nothing in a removed one.
        table: the table's name and columns; None: keys alone are written, of rows that are gone.
        run: rows, in order of key, of so many slices become a row group, which readers can choose; 1024 where rows are in no
            order.
        compression: by Parquet's name.

    Raises:
        ModelError: the disk is full, or the folder is not writable; the message names the file.
    """

    def __init__(self, path: Path, table: TableEntry | None, run: int = NUM_SLICES, compression: str = "none") -> None:
        import pyarrow.parquet as pq

        self.path = path
        self.schema = TOMBSTONES if table is None else rows_schema(table)
        self.rows = 0
        self._run = run
        self._last = -1
        self._groups: list[tuple[int, int]] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._row_bytes = sum(kind.bit_width // 8 for _, kind in STATISTICS)
        self._row_bytes += 0 if table is None else 4 * sum(table.columns.values())
        with storing(self.path):
            self._writer = pq.ParquetWriter(
                self.path,
                self.schema,
                compression=compression,
                use_dictionary=["slot"] if table is not None else False,
                write_statistics=False,
            )

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, in the schema of the table; the batch may be held until its row group is full."""
        if not batch.num_rows:
            return
        runs = slices_of(batch) // self._run
        bounds = [0, *(np.flatnonzero(np.diff(runs)) + 1).tolist(), batch.num_rows]
        for start, stop in itertools.pairwise(bounds) if self._run < NUM_SLICES else [(0, batch.num_rows)]:
            if self._waiting and runs[start] != self._last and self._run < NUM_SLICES:
                self._flush()
            self._last = int(runs[start])
            self._add(batch.slice(start, stop - start))

    def _add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_rows * self._row_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._waiting, self.schema)
        slices = [slices_of(batch) for batch in self._waiting]
        whole = int(min(part.min() for part in slices)), int(max(part.max() for part in slices)) + 1
        with storing(self.path):
            self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self._groups += [whole] * -(-rows.num_rows // ROW_GROUP_ROWS)
        self._waiting, self._waiting_rows = [], 0

    def close(self) -> None:
        """Write what waits and return when all of it is on the disk."""
        if self._waiting:
            self._flush()
        with storing(self.path):
            self._writer.close()
            seal(self.path, self.rows, [(*run, size) for run, size in zip(self._groups, group_bytes(self.path), strict=True)])
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


def slices_of(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the slice of each row's key."""
    return (keys_of(batch) >> np.uint64(SLICE_SHIFT)).astype(np.int64)


def keys_of(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """Return the key of each row, which is its first column."""
    keys: NDArray[np.int64] = batch.column(0).to_numpy()
    return keys.view(np.uint64)


def group_bytes(path: Path) -> list[int]:
    """Return the bytes of each row group of a file, the first with what stands before it."""
    import pyarrow.parquet as pq

    found = pq.read_metadata(path)
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    chunks = [[group.column(i) for i in range(group.num_columns)] for group in groups]
    ends = [max(start_of(chunk) + chunk.total_compressed_size for chunk in group) for group in chunks]
    return [stop - start for start, stop in itertools.pairwise([0, *ends])]


def start_of(chunk: pa.parquet.ColumnChunkMetaData) -> int:
    """Return where the pages of a column begin."""
    return int(chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset)


def stored_parts(folder: Path) -> list[VersionFile]:
    """Return the files of a folder of parts without checksums, in order of their numbers."""
    return [VersionFile(path, None) for path in sorted(folder.glob("part-*.parquet"))]


def check_parts(folder: Path, parts: Sequence[VersionFile]) -> None:
    """Require that a table has files of its own.

    Raises:
        ModelError: it has no files, since the version is gone; or a file is a link.
    """
    if not parts:
        raise _gone(folder)
    if links := [part.path for part in parts if part.path.is_symlink()]:
        raise ModelError(f"{links[0]} is damaged: a file of rows must not be a link. Restore it from a backup.")


def copy(part: VersionFile, folder: Path) -> None:
    """Copy a file of a version into a folder; what is copied is checked.

    Raises:
        ModelError: it is damaged, or the disk is full or not writable.
    """
    with reading(part.path):
        content = part.content()
    with creating(folder / part.path.name):
        (folder / part.path.name).write_bytes(content)


def read_rows(parts: Sequence[VersionFile], columns: Sequence[str] | None, slices: range | None) -> Iterator[pa.RecordBatch]:
    """Read the rows of a table's files, 65,536 or fewer at a time; all columns, or those named, in that order.

    Args:
        slices: a run of slices that the read rows must cover; files without checksums are read whole. None: all.

    Raises:
        ModelError: a file is damaged, or went while it was read; the message names it.
    """
    for part in parts:
        wanted = groups_of(part, slices)
        if wanted is not None and not wanted:
            continue
        with reading(part.path), part.opened() as file:
            for batch in batches_of(file, part, wanted, columns):
                yield batch if columns is None else batch.select(list(columns))


def groups_of(part: VersionFile, slices: range | None) -> list[int] | None:
    """Return the row groups of a file that have rows of some slices, its blocks but the last; None where it is one block."""
    groups = list(enumerate(part.blocks[:-1]))
    if not groups:
        return None
    return [n for n, block in groups if slices is None or (block.first < slices.stop and slices.start < block.stop)]


def batches_of(
    file: BinaryIO, part: VersionFile, groups: Sequence[int] | None, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Read some row groups of a file, or all."""
    import pyarrow.parquet as pq

    names = None if columns is None else list(columns)
    if groups is None:
        # By default whole row groups are read before the first row arrives.
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=READ_BYTES) as parquet:
            yield from parquet.iter_batches(READ_ROWS, columns=names)
        return
    if part.size <= SMALL_BYTES:  # for many files, as in a chain, opening costs more than reading
        with pq.ParquetFile(pa.BufferReader(file.read()), pre_buffer=False) as parquet:
            yield from parquet.iter_batches(READ_ROWS, row_groups=list(groups), columns=names)
        return
    file.seek(-part.blocks[-1].size, os.SEEK_END)
    found = pq.read_metadata(pa.BufferReader(file.read()))  # not by way of the file, of which more would be read for it
    with pq.ParquetFile(file, metadata=found, pre_buffer=False) as parquet:
        for group in groups:  # one block of the file after the other
            yield from parquet.iter_batches(READ_ROWS, row_groups=[group], columns=names)


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
