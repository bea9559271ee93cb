"""Columns that clauses compute of each row: a scan around the scan of a query."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ....warehouse.entries import Split
from ...engines.base import Bounds, Scan
from ...engines.repeats import expanded
from ...input.streams.segment_scan import NotingReading, Reading, SegmentScan
from .base import ComputedColumn


def with_field(schema: pa.Schema, field: pa.Field) -> pa.Schema:
    """Return columns with a computed one, in the place of the one that has its name."""
    names = [name.lower() for name in schema.names]
    if field.name.lower() not in names:
        return schema.append(field)
    place = names.index(field.name.lower())
    return schema.set(place, field.with_name(schema.names[place]))


def computing(scan: Scan, computed: ComputedColumn) -> Scan:
    """Return the rows of a scan with a computed column."""
    if isinstance(scan, SegmentScan):
        return replace(scan, reading=ComputedReading(scan.reading, computed))
    return ComputedRows(scan, computed)


def read_with(
    rows: Scan | Reading, computed: ComputedColumn, split: Split, wanted: Sequence[str], size: int
) -> Iterator[pa.Table]:
    """Read a split with the computed column, where it is wanted."""
    name = computed.field.name.lower()
    plain = [column for column in wanted if column.lower() != name]
    if len(plain) == len(wanted):
        yield from rows.read(split, wanted, size)
        return
    own = {column.lower(): column for column in plain}
    read = list({**{column.lower(): column for column in computed.reads}, **own}.values())
    for table in rows.read(split, read, size):
        columns = dict(zip((column.lower() for column in read), expanded(table).columns, strict=True))
        made = computed.column(pa.table([columns[column.lower()] for column in computed.reads], names=list(computed.reads)))
        columns[name] = made
        yield pa.table([columns[column.lower()] for column in wanted], names=list(wanted))


@dataclass(frozen=True)
class ComputedReading:
    """How a split of a stream is read, with a computed column; see Reading."""

    reading: Reading
    computed: ComputedColumn

    @property
    def schema(self) -> pa.Schema:
        """The columns of the stream's query, and the computed one."""
        return with_field(self.reading.schema, self.computed.field)

    @property
    def exact(self) -> bool:
        """Whether no filter drops rows."""
        return self.reading.exact

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a split."""
        yield from read_with(self.reading, self.computed, split, wanted, rows)

    def check(self, split: Split) -> None:
        """Refuse a split that has changed."""
        self.reading.check(split)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Yield the statistics of a column; nothing for the computed one."""
        if column.lower() != self.computed.field.name.lower():
            yield from self.reading.bounds(splits, column)

    def beside(self, folder: Path) -> ComputedReading:
        """Return the same, which records beside a version what it skips."""
        return replace(self, reading=self.reading.beside(folder)) if isinstance(self.reading, NotingReading) else self


@dataclass(frozen=True)
class ComputedRows:
    """Rows of a scan with a computed column; see Scan."""

    scan: Scan
    computed: ComputedColumn

    @property
    def schema(self) -> pa.Schema:
        return with_field(self.scan.schema, self.computed.field)

    @property
    def staged(self) -> bool:
        return self.scan.staged

    @property
    def bounded(self) -> bool:
        return self.scan.bounded

    @property
    def exact(self) -> bool:
        return self.scan.exact

    @property
    def most_counted(self) -> int:
        return self.scan.most_counted

    def splits(self) -> list[Split]:
        """List the splits of the scan."""
        return self.scan.splits()

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a split."""
        yield from read_with(self.scan, self.computed, split, wanted, rows)

    def check(self, split: Split) -> None:
        """Refuse a split that changed."""
        self.scan.check(split)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Yield the statistics of a column; nothing for the computed one."""
        if column.lower() != self.computed.field.name.lower():
            yield from self.scan.bounds(splits, column)

    def describe(self) -> str:
        """Return how the scan is read."""
        return self.scan.describe()

    def entry(self) -> dict[str, Any]:
        """Return what a manifest keeps of the scan."""
        return self.scan.entry()

    def over(self, splits: Sequence[Split]) -> ComputedRows:
        """Return the same over splits that were listed before."""
        return replace(self, scan=self.scan.over(splits))
