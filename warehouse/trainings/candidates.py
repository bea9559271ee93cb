"""The features of a version that occurred but have no row: how often, in Parquet files, one per shard.

A version's folder `candidates/` holds `part-<number>.parquet`, where its operators count such features. Columns: `key` int64
(the bit pattern of the hash), `count` uint16, and `before`: whether it was counted in the period before the present one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..checksums import VersionFile, seal
from ..durable import creating
from ..names import part_name
from ..rows import READ_ROWS, reading

SCHEMA = pa.schema([pa.field("key", pa.int64()), pa.field("count", pa.uint16()), pa.field("before", pa.bool_())])

Line = tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.bool_]]


def write_candidates(
    folder: Path, part: int, keys: NDArray[np.uint64], counts: NDArray[np.uint32], before: NDArray[np.bool_]
) -> None:
    """Write one shard's counts; durable when this returns.

    Raises:
        ModelError: the disk is full, or the folder is not writable.
    """
    import pyarrow.parquet as pq

    path = folder / part_name(part)
    arrays = [pa.array(keys.view(np.int64)), pa.array(counts.astype(np.uint16)), pa.array(before)]
    with creating(path):
        pq.write_table(pa.table(arrays, schema=SCHEMA), path, compression="zstd", use_dictionary=["count"])
        seal(path, len(keys), [])


def read_candidates(parts: Sequence[VersionFile]) -> Iterator[Line]:
    """Read keys, counts and `before` of a version, some at a time.

    Raises:
        ModelError: a file is damaged.
    """
    import pyarrow.parquet as pq

    for part in parts:
        with reading(part.path), part.opened() as file, pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(READ_ROWS):
                keys, counts, before = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
                yield keys.view(np.uint64), counts.astype(np.uint32), before
