"""How a query reads ranges of messages: a worker asks the brokers itself, and notes what it passes over."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ....warehouse.manifest import MessageRange, Split
from ...engines.base import Bounds
from ...engines.parquet_scan import ParquetScan
from ...errors import DataError
from .decoding import Decoder
from .files import row_by_row
from .kafka_options import ClientSettings
from .messages import read_range
from .skipped import Skipped, note


@dataclass(frozen=True)
class MessageReading:
    """How one range is read; see Reading.

    Attributes:
        query: reads files with the columns of messages.
        decoder: makes those columns.
        skips: messages that are no rows are passed over; else they are an error.
        folder: of the version, beside which they are noted; None before it has one.
    """

    query: ParquetScan
    decoder: Decoder
    settings: ClientSettings = field(repr=False)
    skips: bool
    folder: Path | None = None

    @property
    def schema(self) -> pa.Schema:
        """The result's columns."""
        return self.query.schema

    @property
    def exact(self) -> bool:
        """Not every offset has a message, and not every message is a row."""
        return False

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a range in tables of `rows` messages."""
        messages = as_range(split)
        project, own = self.query.project, self.query.own_names(wanted)
        columns = own if project else [self.query.columns[name] for name in own]
        skipped: list[Skipped] = []
        for table in self._tables(messages, rows, skipped):
            made = table if project is None else project(table)
            yield made.select(columns).rename_columns(list(wanted))
        if skipped and self.folder is not None:
            note(self.folder, messages, skipped)

    def _tables(self, wanted: MessageRange, rows: int, skipped: list[Skipped]) -> Generator[pa.Table, None, None]:
        """Yield the rows of each `rows` messages; of those that are none, tell or raise.

        Whatever is wanted of them, they are rows where all columns that the query reads can be made.
        """
        pieces: list[pa.Table] = []
        held = 0
        for messages in read_range(self.settings, wanted, rows):
            decoded = self.decoder.decode(messages, self.query.needed)
            if decoded.skipped and not self.skips:
                raise no_row(wanted, decoded.skipped[0])
            skipped += decoded.skipped
            pieces.append(decoded.rows)
            held += len(messages)
            if held == rows:
                yield pa.concat_tables(pieces)
                pieces, held = [], 0
        if pieces:
            yield pa.concat_tables(pieces)

    def check(self, split: Split) -> None:
        """Nothing to look at: a range that is not there any more is told when it is read."""

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Return nothing, as messages tell nothing without being read."""
        return iter(())

    def beside(self, folder: Path) -> MessageReading:
        """Return the same, with the folder of the version that learns what is read."""
        return replace(self, folder=folder)


def reading_of(query: str, decoder: Decoder, settings: ClientSettings, skips: bool, warehouse: Path) -> MessageReading:
    """Return how a query over VIEW reads messages.

    Raises:
        StatementError: the query cannot run, or is not row by row.
    """
    with tempfile.TemporaryDirectory(prefix="xpsql-kafka-") as name:
        like = Path(name, "messages.parquet")
        pq.write_table(decoder.schema.empty_table(), like)
        return MessageReading(row_by_row(query, str(like), warehouse), decoder, settings, skips)


def as_range(split: Split) -> MessageRange:
    """Return a split of a topic as what it is."""
    assert isinstance(split, MessageRange)
    return split


def no_row(wanted: MessageRange, first: Skipped) -> DataError:
    """Return the error of a message that is no row."""
    return DataError(
        f"The message at offset {first.offset} of partition {wanted.partition} of topic {wanted.topic} is no row: "
        f"{first.reason}. read_kafka(..., on_error => 'skip') passes over such messages and writes down which they are."
    )
