"""Results of queries as Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from ...warehouse.durable import storing

ROW_GROUP_ROWS = 122_880


def write(path: Path, rows: pa.RecordBatchReader) -> int:
    """Write a stream of rows to one file, in order, in row groups of 122,880 rows, and return how many there are.

    The memory used is a row group's. Floats have no statistics: these leave NaN out, and DuckDB passes over row groups by them.

    Raises:
        ModelError: the disk is full or not writable.
    """
    import pyarrow.parquet as pq

    groups, count = row_groups(rows), 0
    told = [field.name for field in rows.schema if not pa.types.is_floating(field.type) and not pa.types.is_nested(field.type)]
    options = {"compression": "zstd", "compression_level": 1, "write_statistics": told}
    with storing(path), pq.ParquetWriter(path, rows.schema, **options) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
            count += group.num_rows
    return count


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
