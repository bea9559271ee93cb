"""How a query reads splits whose rows have to be made: messages, lines of JSON, records. Others are reported, or noted."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ....warehouse.manifest import Split
from ...engines.base import Bounds
from ...engines.parquet_scan import ParquetScan
from ...errors import DataError
from .decoding import Decoded
from .files import row_by_row
from .skipped import Skipped, note


class Noted(NamedTuple):
    """How what is no row of a split is written down: the file's name, and what stands in each line beside where and why."""

    name: str
    place: Mapping[str, Any]


class RowSource(Protocol):
    """What makes the rows of splits; from any thread, and in any process."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        ...

    def decoded(self, split: Split, needed: Sequence[str], rows: int) -> Iterator[tuple[int, Decoded]]:
        """Yield the needed columns of a split in order, piece by piece, each with how many it was made of; none goes beyond a
        multiple of `rows`."""
        ...

    def check(self, split: Split) -> None:
        """Refuse a split that is not what it was."""
        ...

    def noted(self, split: Split) -> Noted: ...

    def no_row(self, split: Split, first: Skipped) -> DataError:
        """Return the error of what is no row."""
        ...


@dataclass(frozen=True)
class DecodedReading:
    """How one split is read; see Reading.

    Attributes:
        query: reads files with the columns of the source's rows.
        source: makes those.
        skips: what is no row is passed over; else it is an error.
        folder: of the version, beside which that is noted; None before it has one.
    """

    query: ParquetScan
    source: RowSource = field(repr=False)
    skips: bool
    folder: Path | None = None

    @property
    def schema(self) -> pa.Schema:
        """The result's columns."""
        return self.query.schema

    @property
    def exact(self) -> bool:
        """Not everything is a row."""
        return False

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a split in tables of `rows` rows, those that are none included."""
        project, own = self.query.project, self.query.own_names(wanted)
        columns = own if project else [self.query.columns[name] for name in own]
        skipped: list[Skipped] = []
        for table in self._tables(split, rows, skipped):
            made = table if project is None else project(table)
            yield made.select(columns).rename_columns(list(wanted))
        if skipped and self.folder is not None:
            note(self.folder, *self.source.noted(split), skipped)

    def _tables(self, split: Split, rows: int, skipped: list[Skipped]) -> Generator[pa.Table, None, None]:
        """Yield the rows of each `rows` of a split; of what is none, tell or raise.

        Whatever is wanted, something is a row where all columns that the query reads can be made.
        """
        pieces: list[pa.Table] = []
        held = 0
        for count, decoded in self.source.decoded(split, self.query.needed, rows):
            if decoded.skipped and not self.skips:
                raise self.source.no_row(split, decoded.skipped[0])
            skipped += decoded.skipped
            pieces.append(decoded.rows)
            held += count
            if held == rows:
                yield pa.concat_tables(pieces)
                pieces, held = [], 0
        if pieces:
            yield pa.concat_tables(pieces)

    def check(self, split: Split) -> None:
        """Refuse a split that is not what it was."""
        self.source.check(split)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Return nothing: nothing is known without being read."""
        return iter(())

    def beside(self, folder: Path) -> DecodedReading:
        """Return the same, with the folder of the version that learns what is read."""
        return replace(self, folder=folder)


def reading_of(query: str, source: RowSource, skips: bool, warehouse: Path) -> DecodedReading:
    """Return how a query over VIEW reads what a source makes.

    Raises:
        StatementError: the query cannot run, or is not row by row.
    """
    with tempfile.TemporaryDirectory(prefix="xpsql-rows-") as name:
        like = Path(name, "rows.parquet")
        pq.write_table(source.schema.empty_table(), like)
        return DecodedReading(row_by_row(query, str(like), warehouse), source, skips)
