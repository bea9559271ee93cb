"""Results of queries as Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...warehouse.durable import storing
from ...warehouse.names import part_name

if TYPE_CHECKING:
    import pyarrow.parquet as pq

ROW_GROUP_ROWS = 122_880


def write(path: Path, rows: pa.RecordBatchReader) -> int:
    """Write a stream of rows to one file, in order, in row groups of 122,880 rows, and return how many there are.

    The memory used is a row group's. Floats have no statistics: these leave NaN out, and DuckDB passes over row groups by them.

    Raises:
        ModelError: the disk is full or not writable.
    """
    groups, count = row_groups(rows), 0
    with storing(path), written(path, rows.schema) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
            count += group.num_rows
    return count


def written(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return what writes a staged file."""
    import pyarrow.parquet as pq

    kept = [field.name for field in schema if not pa.types.is_floating(field.type) and not pa.types.is_nested(field.type)]
    return pq.ParquetWriter(path, schema, compression="zstd", compression_level=1, write_statistics=kept)


def write_parts(folder: Path, rows: pa.RecordBatchReader, columns: Sequence[str]) -> int:
    """Write a stream of rows to a file for each run of the same values in some columns, and return how many rows there are.

    Raises:
        ModelError: see write.
    """
    count = number = 0
    for number, (_, pieces) in enumerate(groupby(runs(rows, columns), itemgetter(0)), 1):
        part = pa.RecordBatchReader.from_batches(rows.schema, map(itemgetter(1), pieces))
        count += write(folder / part_name(number), part)
    if not number:
        write(folder / part_name(0), rows.schema.empty_table().to_reader())
    return count


def runs(rows: pa.RecordBatchReader, columns: Sequence[str]) -> Iterator[tuple[tuple[object, ...], pa.RecordBatch]]:
    """Cut a stream of rows where a value of some columns changes; yield the values and the rows that have them."""
    for batch in rows:
        if not batch.num_rows:
            continue
        changes = np.zeros(max(batch.num_rows - 1, 0), bool)
        for column in columns:
            codes = batch.column(column).dictionary_encode(null_encoding="encode").indices.to_numpy()
            changes |= codes[1:] != codes[:-1]
        for start, end in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]):
            yield tuple(batch.column(column)[start].as_py() for column in columns), batch.slice(start, end - start)


def row_groups(rows: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Cut a stream of rows into tables of a row group each; the last one is shorter."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in rows:
        while count + batch.num_rows >= ROW_GROUP_ROWS:
            taken = ROW_GROUP_ROWS - count
            yield pa.Table.from_batches([*held, batch.slice(0, taken)], rows.schema)
            batch, held, count = batch.slice(taken), [], 0
        if batch.num_rows:
            held.append(batch)
            count += batch.num_rows
    if count:
        yield pa.Table.from_batches(held, rows.schema)
