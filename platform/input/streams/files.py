"""Parquet files as pieces of streams: their splits, and how a query reads them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from ....warehouse.entries import RowGroup, Split
from ...engines.base import Scan
from ...engines.parquet_scan import ParquetScan, as_row_group
from ...errors import DataError, StatementError
from .base import VIEW
from .segment_scan import SegmentScan


class ArrivedFile(NamedTuple):
    """A file as it was found: its path, its size in bytes, and when it was modified, in nanoseconds since 1970."""

    path: str
    size: int
    modified: int


def file_at(path: Path) -> ArrivedFile:
    """Stat a file.

    Raises:
        OSError: it is gone.
    """
    stat = path.stat()
    return ArrivedFile(str(path), stat.st_size, stat.st_mtime_ns)


def old_enough(splits: Sequence[Split], seconds: float) -> list[Split]:
    """Return the row groups of files that were written long enough ago, up to the first file that was not: positions of tables
    have no gaps."""
    newest = time.time_ns() - round(seconds * 1e9)
    return list(itertools.takewhile(lambda split: as_row_group(split).modified <= newest, splits))


def splits_of(file: ArrivedFile) -> list[Split]:
    """Return the row groups of a file; one of no rows where it has none, so that it is known to be learned.

    Raises:
        DataError: it cannot be read as Parquet.
    """
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(file.path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{file.path} cannot be read as Parquet: {error}. Write it again under another name, or move it away."
        ) from error
    groups = [RowGroup(*file, group, metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)]
    return [split for split in groups if split.rows] or [RowGroup(*file)]


def files_of(splits: Iterable[Split]) -> list[ArrivedFile]:
    """Return the files of splits, each once, in order."""
    groups = map(as_row_group, splits)
    return list(dict.fromkeys(ArrivedFile(group.path, group.size, group.modified) for group in groups))


def scan_of(query: str, splits: Sequence[Split], warehouse: Path) -> Scan:
    """Return how a query reads splits of files; see InputStream.scan."""
    import pyarrow.parquet as pq

    first = files_of(splits)[0].path
    scan = row_by_row(query, first, warehouse)
    schema = pq.read_schema(first)
    like = FileColumns(first, {name: schema.field(name).type for name in scan.needed})
    like.check(splits)
    return SegmentScan(scan, tuple(splits), like.check)


def row_by_row(query: str, file: str, warehouse: Path) -> ParquetScan:
    """Return how a query over VIEW reads Parquet files with the columns of one.

    Raises:
        StatementError: the query cannot run, or is not row by row.
    """
    from ...engines.duckdb.row_wise import row_wise  # imports sqlglot, which a job that finds nothing new does not need

    scan = row_wise(query, VIEW, file, warehouse)
    if isinstance(scan, str):
        raise StatementError(
            f"A stream is learned row by row, and {scan}. Make such rows first, by INSERT INTO a table, and learn FROM STREAM "
            "of that table; WITH (delay = '15 minutes') files wait so long for what they are joined with."
        )
    return scan


def check_joins(query: str) -> None:
    """Require that a query does nothing beyond row-wise work but joins: later rows must not change its result.

    Raises:
        StatementError: says what it has.
    """
    from ...engines.duckdb.row_wise import more_than_joins  # imports sqlglot, which a job that finds nothing new does not need

    if (more := more_than_joins(query)) is not None:
        raise StatementError(f"A stream is joined a part at a time, and {more}. Make such rows first, by INSERT INTO a table.")


class FileColumns(NamedTuple):
    """The columns that a query reads of files, with the types that they have in the first one, at `first`."""

    first: str
    types: Mapping[str, pa.DataType]

    def check(self, splits: Sequence[Split]) -> None:
        """Require that files have these.

        Raises:
            DataError: names the first file that differs, and how.
        """
        import pyarrow.parquet as pq

        for file in files_of(splits):
            try:
                found = pq.read_schema(file.path)
            except (OSError, pa.ArrowException) as error:
                raise DataError(f"{file.path} cannot be read as Parquet: {error}. Put it back, or train again.") from error
            for name, kind in self.types.items():
                at = found.get_field_index(name)
                if at < 0 or found.field(at).type != kind:
                    has = "no column of that name" if at < 0 else f"{found.field(at).type}"
                    raise DataError(
                        f"Files of the stream differ: {name} is {kind} in {self.first}, and {file.path} has {has}. Write it "
                        "again as the others are, or move it away."
                    )
