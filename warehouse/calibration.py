"""The tallies and biases of calibrated predictions: a file of a version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from .checksums import VersionFile, seal
from .durable import clear, creating
from .names import part_name
from .rows import reading

CALIBRATION = pa.schema(
    [
        pa.field("label", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("key", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("labels", pa.int64(), nullable=False),
        pa.field("predictions", pa.int64(), nullable=False),
        pa.field("bias", pa.float64()),
    ]
)
"""`kind` is bin, whose key is its number, or value; predictions are in units of 2^-32; bias: of values that have one.
Of numbers `kind` is residual or error, whose key is its bin, or shift, whose key is a share of misses in millionths."""


def write_table(folder: Path, table: pa.Table) -> None:
    """Write a table as the one file of a folder of a version, in place of one that is there.

    Raises:
        ModelError: the disk is full, or the folder is not writable.
    """
    import pyarrow.parquet as pq

    clear(folder)
    path = folder / part_name(0)
    with creating(path):
        pq.write_table(table, path, compression="zstd")
        seal(path, table.num_rows, [])


def read_table(part: VersionFile) -> pa.Table:
    """Read the table of such a file.

    Raises:
        ModelError: it is gone, or damaged.
    """
    import pyarrow.parquet as pq

    with reading(part.path):
        return pq.read_table(pa.BufferReader(part.content()))
