"""Messages of a topic as rows: each worker reads from the brokers itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ....warehouse.manifest import MessageRange, Split
from ...errors import DataError
from .decoded_scan import SkipNote
from .decoding import Decoded, Decoder
from .kafka_options import ClientSettings
from .messages import read_range
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
        """Yield the rows of a range as they arrive."""
        for messages in read_range(self.settings, as_range(split), rows):
            yield len(messages), self.decoder.decode(messages, needed)

    def check(self, split: Split) -> None:
        """Nothing to check: a range that is gone is reported when it is read."""

    def noted(self, split: Split) -> SkipNote:
        """Return the topic and the partition."""
        wanted = as_range(split)
        place = {"topic": wanted.topic, "partition": wanted.partition}
        return SkipNote(f"{wanted.topic}-{wanted.partition}-{wanted.start}", place)

    def no_row(self, split: Split, first: Skipped) -> DataError:
        """Return the error of a message that is not a row."""
        wanted = as_range(split)
        return DataError(
            f"The message at offset {first.offset} of partition {wanted.partition} of topic {wanted.topic} is no row: "
            f"{first.reason}. read_kafka(..., on_error => 'skip') skips such messages and records them."
        )


def as_range(split: Split) -> MessageRange:
    """Return a split as the message range that it is."""
    assert isinstance(split, MessageRange)
    return split
