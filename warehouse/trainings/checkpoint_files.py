"""Files of a checkpoint: records of rows, and bytes with a checksum."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...platform.errors import CheckpointError
from ..storage import Storage

PAGE_BYTES = 1 << 22


Records = NDArray[np.uint8]


@dataclass(frozen=True)
class File:
    """A file of a checkpoint: its bytes, and a checksum where it has none within."""

    name: str
    size: int = 0
    crc32: int | None = None


def write_records(place: Storage, name: str, record_bytes: int, pieces: Iterable[Records]) -> tuple[File, int]:
    """Write records of rows and return their file and how many there are.

    Args:
        pieces: uint8[n, record_bytes] each.

    Raises:
        ModelError: the disk is full, or the place is not writable.
    """
    import pyarrow.parquet as pq

    schema, rows = pa.schema([pa.field("record", pa.binary(record_bytes), nullable=False)]), 0
    layout = {"compression": "none", "use_dictionary": False, "data_page_size": PAGE_BYTES}
    with place.written(name) as file:
        with pq.ParquetWriter(file, schema, write_statistics=False, write_page_checksum=True, **layout) as writer:
            for records in pieces:
                rows += len(records)
                column = pa.FixedSizeBinaryArray.from_buffers(schema.field(0).type, len(records), [None, pa.py_buffer(records)])
                writer.write_table(pa.Table.from_arrays([column], schema=schema))
        return File(name.rpartition("/")[2], file.tell()), rows


def read_records(place: Storage, name: str, rows: int) -> Iterator[Records]:
    """Read the records of a file, uint8[n, record_bytes] at a time.

    Args:
        rows: as many as it must have.

    Raises:
        CheckpointError: it is damaged or missing.
    """
    import pyarrow.parquet as pq

    path, found = place.below(name), 0
    with damaged(path), place.opened(name) as file, pq.ParquetFile(file, page_checksum_verification=True) as parquet:
        counts = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        width, size = parquet.schema_arrow.field(0).type.byte_width, file.size()
        if min(counts, default=0) < 0 or sum(counts) != rows or rows * width > size:  # what is read takes no more than the file
            raise ValueError(f"it has {sum(counts)} rows in {size} bytes, not {rows}")
        for group in range(parquet.num_row_groups):
            for chunk in parquet.read_row_group(group, use_threads=False).column(0).chunks:
                found += len(chunk)
                records = np.frombuffer(chunk.buffers()[1], np.uint8).reshape(-1, chunk.type.byte_width)
                yield records[chunk.offset : chunk.offset + len(chunk)]
        if found != rows:
            raise ValueError(f"it has {found} rows, not {rows}")


def write_state(place: Storage, name: str, pieces: Sequence[bytes | bytearray | memoryview]) -> File:
    """Write a file of bytes and return it with their checksum."""
    size = crc32 = 0
    with place.written(name) as file:
        for piece in pieces:
            file.write(piece)
            size, crc32 = size + len(piece), zlib.crc32(piece, crc32)
    return File(name.rpartition("/")[2], size, crc32)


def read_state(place: Storage, name: str, file: File) -> Records:
    """Read a file of bytes, uint8[n].

    Raises:
        CheckpointError: it is damaged or missing.
    """
    with damaged(place.below(name)):
        with place.opened(name) as opened:
            content = opened.read()
        if zlib.crc32(content) != file.crc32:
            raise ValueError("its checksum differs")
        return np.frombuffer(content, np.uint8)


@contextlib.contextmanager
def damaged(path: str) -> Iterator[None]:
    """Turn the errors of reading a checkpoint into a CheckpointError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, pa.ArrowException) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
