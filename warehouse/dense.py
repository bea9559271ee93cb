"""The dense parameters of a version on disk: a Parquet file per shard, a line per array.

A version's folder `dense/` holds `part-<number>.parquet`. Columns: `name` of the parameter; `column`, "w" for its values, which
are what readers need, or the name of an array of its optimizer's state; `shape`; `values`, float32 in row-major order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .durable import creating
from .names import part_name
from .rows import copy, reading
from .stored import VersionFile, seal, sums_of

SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        pa.field("shape", pa.list_(pa.int32()), nullable=False),
        pa.field("values", pa.list_(pa.float32()), nullable=False),
    ]
)

Floats = NDArray[np.float32]


def write_dense(folder: Path, part: int, arrays: Iterable[tuple[str, str, Floats]]) -> None:
    """Write one shard's arrays, (name, column, values) each; durable when this returns.

    Raises:
        ModelError: the disk is full, or the folder is not writable.
    """
    import pyarrow.parquet as pq

    lines = [(name, column, list(values.shape), values.reshape(-1)) for name, column, values in arrays]
    table = pa.table([pa.array(line, field.type) for line, field in zip(zip(*lines, strict=True), SCHEMA, strict=True)], SCHEMA)
    path = folder / part_name(part)
    with creating(path):
        pq.write_table(table, path, compression="none", use_dictionary=False)
        seal(path, len(lines), [])


def copy_dense(parts: Sequence[VersionFile], target: Path, without: Collection[str]) -> None:
    """Copy a version's arrays to a new folder, except some parameters'; no folder where none is left.

    Raises:
        ModelError: a file is damaged, the disk is full, or the target is not writable.
    """
    if not without:
        for part in parts:
            copy(part, target)
        return
    kept = [(name, column, values) for (name, column), values in read_dense(parts).items() if name not in without]
    if kept:
        write_dense(target, 0, kept)
        sums_of(target / part_name(0)).unlink()  # an export has no manifest to take them


def read_dense(parts: Sequence[VersionFile], column: str | None = None) -> dict[tuple[str, str], Floats]:
    """Read a version's arrays by name and column: all, or one column's.

    Raises:
        ModelError: a file is damaged.
    """
    import pyarrow.parquet as pq

    arrays = {}
    for part in parts:
        with reading(part.path):
            wanted = None if column is None else [("column", "=", column)]
            table = pq.read_table(pa.BufferReader(part.content()), filters=wanted)
        for line in range(table.num_rows):
            name, of, shape, values = (table.column(field.name)[line] for field in SCHEMA)
            arrays[name.as_py(), of.as_py()] = values.values.to_numpy().reshape(shape.as_py())
    return arrays
