"""Files of a version beside its rows: the model of another package, as that package wrote it; and the tree of its items, a
Parquet file with a row per item.

Columns of a tree: `key` of the item, as in its row; `category`, the key of its category, 0 for none; `code`, the number of its
leaf as in a heap, where the children of c are 2c + 1 and 2c + 2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .checksums import VersionFile, seal
from .durable import clear, creating
from .names import part_name
from .rows import reading

FILE = "model"
TREE = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (("key", pa.int64()), ("category", pa.int64()), ("code", pa.int64()))
    ]
)
Columns = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]


def write_package(folder: Path, model: bytes) -> None:
    """Write a model; durable when this returns.

    Raises:
        ModelError: the disk is full, or the folder is not writable.
    """
    path = folder / FILE
    with creating(path):
        path.write_bytes(model)
        seal(path, 0, [])


def read_package(part: VersionFile) -> bytes:
    """Read a version's model.

    Raises:
        ModelError: it is gone, or damaged.
    """
    with reading(part.path):
        return part.content()


def write_tree(folder: Path, columns: Columns) -> None:
    """Write a tree, in place of one that is there; durable when this returns.

    Raises:
        ModelError: the disk is full, or the folder is not writable.
    """
    import pyarrow.parquet as pq

    clear(folder)
    path = folder / part_name(0)
    arrays = [pa.array(column.view(np.int64)) for column in columns]
    with creating(path):
        pq.write_table(pa.table(arrays, schema=TREE), path, compression="zstd")
        seal(path, len(columns[0]), [])


def read_tree(part: VersionFile) -> Columns:
    """Read a tree.

    Raises:
        ModelError: it is gone, or damaged.
    """
    import pyarrow.parquet as pq

    with reading(part.path):
        table = pq.read_table(pa.BufferReader(part.content()))
    key, category, code = (table[name].to_numpy() for name in TREE.names)
    return key.view(np.uint64), category.view(np.uint64), code
