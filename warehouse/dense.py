"""The dense parameters of a version on disk: a Parquet file per shard, a line per array, or per piece of a large one.

A version's folder `dense/` holds `part-<number>.parquet`. Columns: `name` of the parameter; `column`, "w" for its values, which
are what readers need, or the name of an array of its optimizer's state; `shape`; `values`, float32 in row-major order; `first`,
where it is not 0 for all, which line of the array's first axis is the first one here: lines of one name and column, in that
order, are one array.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .checksums import VersionFile, seal, sums_of
from .durable import creating
from .names import part_name
from .rows import reading

SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        pa.field("shape", pa.list_(pa.int32()), nullable=False),
        pa.field("values", pa.list_(pa.float32()), nullable=False),
    ]
)
FIRST = pa.field("first", pa.int32(), nullable=False)

Floats = NDArray[np.float32]


def write_dense(folder: Path, part: int, arrays: Iterable[tuple[str, str, Floats, int]]) -> None:
    """Write one shard's arrays, (name, column, values, first) each; durable when this returns.

    Raises:
        ModelError: the disk is full, or the folder is not writable.
    """
    import pyarrow.parquet as pq

    lines = [(name, column, list(values.shape), values.reshape(-1), first) for name, column, values, first in arrays]
    schema = SCHEMA.append(FIRST) if any(first for *_, first in lines) else SCHEMA
    columns = [pa.array(line, field.type) for line, field in zip(zip(*lines, strict=True), schema, strict=False)]
    table = pa.table(columns, schema)
    path = folder / part_name(part)
    with creating(path):
        pq.write_table(table, path, compression="none", use_dictionary=False)
        seal(path, len(lines), [])


def copy_dense(parts: Sequence[VersionFile], target: Path, without: Collection[str]) -> None:
    """Write a version's arrays, each whole, to a new folder, except some parameters'; no folder where none is left.

    Raises:
        ModelError: a file is damaged, the disk is full, or the target is not writable.
    """
    kept = [(name, column, values, 0) for (name, column), values in read_dense(parts).items() if name not in without]
    if kept:
        write_dense(target, 0, kept)
        sums_of(target / part_name(0)).unlink()  # an export has no manifest to take them


def read_dense(parts: Sequence[VersionFile], column: str | None = None) -> dict[tuple[str, str], Floats]:
    """Read a version's arrays by name and column: all, or one column's.

    Raises:
        ModelError: a file is damaged.
    """
    import pyarrow.parquet as pq

    pieces: dict[tuple[str, str], list[tuple[int, Floats]]] = {}
    for part in parts:
        with reading(part.path):
            wanted = None if column is None else [("column", "=", column)]
            table = pq.read_table(pa.BufferReader(part.content()), filters=wanted)
        firsts = table.column(FIRST.name).to_pylist() if FIRST.name in table.column_names else [0] * table.num_rows
        for line, first in enumerate(firsts):
            name, of, shape, values = (table.column(field.name)[line] for field in SCHEMA)
            found = values.values.to_numpy().reshape(shape.as_py())
            pieces.setdefault((name.as_py(), of.as_py()), []).append((first, found))
    return {name: whole(found) for name, found in pieces.items()}


def whole(pieces: list[tuple[int, Floats]]) -> Floats:
    """Return an array of its pieces, or the number that all pieces share."""
    arrays = [values for _, values in sorted(pieces, key=lambda piece: piece[0])]
    return arrays[0] if len(arrays) == 1 or not arrays[0].ndim else np.concatenate(arrays)
