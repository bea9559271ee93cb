"""Messages of a topic as rows: each worker reads from the brokers itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ....warehouse.entries import Split
from ....warehouse.message_ranges import MessageRange, MessageRanges
from ...errors import DataError
from .decoded_scan import SkipNote
from .decoding import Decoded, Decoder
from .kafka_options import ClientSettings
from .messages import offset_of, read_ranges
from .skipped import Skipped


@dataclass(frozen=True)
class MessageSource:
    """The rows of ranges of messages; see RowSource.

    Attributes:
        decoder: makes them.
    """

    decoder: Decoder
    settings: ClientSettings = field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return self.decoder.schema

    def decoded(self, split: Split, needed: Sequence[str], rows: int) -> Iterator[tuple[int, Decoded]]:
        """Yield the rows of ranges as they arrive."""
        for messages in read_ranges(self.settings, ranges_of(split), rows):
            made = self.decoder.decode(messages, needed)
            skipped = [Skipped(offset_of(at := messages[one.offset]), one.reason, at.partition()) for one in made.skipped]
            yield len(messages), Decoded(made.rows, skipped)

    def check(self, split: Split) -> None:
        """Nothing to check: a range that is gone is reported when it is read."""

    def noted(self, split: Split) -> SkipNote:
        """Return the topic."""
        first = ranges_of(split)[0]
        return SkipNote(f"{first.topic}-{first.partition}-{first.start}", {"topic": first.topic})

    def no_row(self, split: Split, first: Skipped) -> DataError:
        """Return the error of a message that is not a row."""
        topic = ranges_of(split)[0].topic
        return DataError(
            f"The message at offset {first.offset} of partition {first.partition} of topic {topic} is not a row: "
            f"{first.reason}. read_kafka(..., on_error => 'skip') skips such messages and records them."
        )


def ranges_of(split: Split) -> tuple[MessageRange, ...]:
    """Return the ranges of messages that a split is."""
    assert isinstance(split, MessageRange | MessageRanges)
    return split.ranges
