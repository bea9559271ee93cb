"""Results of queries that cannot be read in place: files of rows, cut between users where a model reads these whole."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.durable import storing
from ...warehouse.names import part_name
from .base import Engine, Scan, Staged
from .parquet import ROW_GROUP_ROWS, written
from .parquet_scan import ParquetScan, as_row_group, staged_scan


def staged(engine: Engine, query: str, found: Scan | Staged, folder: Path) -> Scan:
    """Return how to read a query's result, which is written into `folder` where it cannot be read in place."""
    if not isinstance(found, Staged):
        return found
    scan = engine.stage(query, folder)
    return scan if not found.user else by_user(scan, found.user, folder)


def by_user(scan: Scan, user: str, folder: Path) -> ParquetScan:
    """Return how to read the staged rows of a scan, of which those of a user are in one split, that is read as one table.

    Args:
        user: the column by which rows are sorted first.
        folder: where the rows are; they are written again where there are several splits.
    """
    splits = scan.splits()
    files = dict.fromkeys(as_row_group(split).path for split in splits)
    if len(splits) > 1:
        path = folder.absolute() / part_name(0, ".users.parquet")
        tables = (table for split in splits for table in scan.read(split, scan.schema.names, ROW_GROUP_ROWS))
        with storing(path), written(path, scan.schema) as writer:
            for table in whole_users(tables, user, ROW_GROUP_ROWS):
                writer.write_table(table.cast(scan.schema), row_group_size=max(1, table.num_rows))
        for file in files:
            Path(file).unlink()
        files = {str(path): None}
    return staged_scan(tuple(files), scan.schema, whole=True)


def whole_users(tables: Iterable[pa.Table], user: str, rows: int) -> Generator[pa.Table, None, None]:
    """Yield sorted rows again, about so many at once, cut between users.

    Args:
        user: the column by which they are sorted first.
    """
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        if count < rows:
            continue
        whole = pa.concat_tables(held)
        cut = int(starts_of(whole.column(user))[-1])
        if cut:
            yield whole.slice(0, cut)
        held, count = [whole.slice(cut)], whole.num_rows - cut
    if count:
        yield pa.concat_tables(held)


def starts_of(users: pa.ChunkedArray) -> NDArray[np.intp]:
    """Return the first row of each run of a user."""
    codes = users.combine_chunks()
    codes = codes.chunk(0) if isinstance(codes, pa.ChunkedArray) else codes
    codes = codes if pa.types.is_dictionary(codes.type) else codes.dictionary_encode(null_encoding="encode")
    numbers = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])) if len(numbers) else np.empty(0, np.intp)
