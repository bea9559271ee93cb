"""The files of a history's events, which versions share: links, and merged where there are many of a size."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...warehouse.durable import make_folder, storing

FILES_OF_A_SIZE = 8
"""Compaction: so many files of events of about the same size are merged: a history has a few files, however often it is
refreshed."""


def link_events(before: Path, draft: Path) -> int:
    """Link the events of a folder, the previous version's, into a draft, merging files of a size.

    Returns:
        The number of the next file.
    """
    files = sorted(before.glob("*.parquet"))
    number = max((int(file.stem.rpartition("-")[2]) for file in files), default=-1) + 1
    many = many_of_a_size(files)
    with storing(draft):
        make_folder(draft / "events")
        for file in files:
            if file not in many:
                os.link(file, draft / "events" / file.name)
        if many:
            merge(many, draft / "events" / event_file(number))
    return number + bool(many)


def event_file(number: int) -> str:
    return f"part-{number:08d}.parquet"


def many_of_a_size(files: Sequence[Path]) -> list[Path]:
    """Return files of about the same number of rows, where there are many; [] where there are not."""
    by_size: dict[int, list[Path]] = {}
    for file in files:
        rows = pq.read_metadata(file).num_rows
        by_size.setdefault(int(math.log(max(rows, 1), FILES_OF_A_SIZE)), []).append(file)
    return next((own for own in by_size.values() if len(own) >= FILES_OF_A_SIZE), [])


def merge(files: Sequence[Path], to: Path) -> None:
    """Write the rows of some files to one."""
    with pq.ParquetWriter(to, pq.read_schema(files[0]), compression="zstd") as writer:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches():
                writer.write_batch(batch)


def decoded(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(field.type.value_type))
    return table
