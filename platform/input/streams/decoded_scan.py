"""How a query reads splits whose rows must be decoded: messages, lines of JSON, records. Undecodable ones raise an error, or
are recorded."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ....warehouse.entries import Split
from ...engines.base import Bounds
from ...engines.parquet_scan import ParquetScan
from ...errors import DataError
from .decoding import Decoded
from .files import row_by_row
from .skipped import Skipped, note


class SkipNote(NamedTuple):
    """How undecodable input of a split is recorded: the file's name, and what each line has beside position and reason."""

    name: str
    place: Mapping[str, Any]


class RowSource(Protocol):
    """Decodes the rows of splits; from any thread, and in any process."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        ...

    def decoded(self, split: Split, needed: Sequence[str], rows: int) -> Iterator[tuple[int, Decoded]]:
        """Yield the needed columns of a split in order, piece by piece, each with the number of inputs decoded; no piece
        crosses a multiple of `rows`."""
        ...

    def check(self, split: Split) -> None:
        """Refuse a split that has changed."""
        ...

    def noted(self, split: Split) -> SkipNote: ...

    def no_row(self, split: Split, first: Skipped) -> DataError:
        """Return the error for undecodable input."""
        ...


@dataclass(frozen=True)
class DecodedReading:
    """How one split is read; see Reading.

    Attributes:
        query: reads files with the columns of the source's rows.
        source: makes those.
        skips: undecodable input is skipped; else it is an error.
        folder: of the version beside which skipped input is recorded; None before there is one.
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
        """Read a split in tables of `rows` rows, undecodable ones included."""
        project, own = self.query.project, self.query.own_names(wanted)
        columns = own if project else [self.query.columns[name] for name in own]
        skipped: list[Skipped] = []
        for table in self._tables(split, rows, skipped):
            made = table if project is None else project(table)
            yield made.select(columns).rename_columns(list(wanted))
        if skipped and self.folder is not None:
            note(self.folder, *self.source.noted(split), skipped)

    def _tables(self, split: Split, rows: int, skipped: list[Skipped]) -> Generator[pa.Table, None, None]:
        """Yield the rows of each `rows` inputs of a split; record undecodable ones, or raise.

        Whichever columns are wanted, input is a row if all columns that the query reads can be decoded.
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
        """Refuse a split that has changed."""
        self.source.check(split)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Return nothing: nothing is known without reading."""
        return iter(())

    def beside(self, folder: Path) -> DecodedReading:
        """Return the same reading, with the folder of the version that learns."""
        return replace(self, folder=folder)


def reading_of(query: str, source: RowSource, skips: bool, warehouse: Path) -> DecodedReading:
    """Return how a query over VIEW reads the rows that a source decodes.

    Raises:
        StatementError: the query cannot run, or is not row by row.
    """
    with tempfile.TemporaryDirectory(prefix="xpsql-rows-") as name:
        like = Path(name, "rows.parquet")
        pq.write_table(source.schema.empty_table(), like)
        return DecodedReading(row_by_row(query, str(like), warehouse), source, skips)
