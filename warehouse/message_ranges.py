"""Splits of a topic: ranges of messages."""

from __future__ import annotations

from dataclasses import dataclass, field

from .entries import many


@dataclass(frozen=True)
class MessageRange:
    """Messages of a partition of a topic, from an offset to another one that is not in it; see Split."""

    topic: str
    partition: int = 0
    start: int = 0
    stop: int = 0

    @property
    def rows(self) -> int:
        """The offsets in it; those where transactions end are no messages."""
        return self.stop - self.start

    @property
    def where(self) -> str:
        """The offsets and their partition."""
        return f"offsets {self.start} to {self.stop - 1} of partition {self.partition} of topic {self.topic}"

    @property
    def ranges(self) -> tuple[MessageRange, ...]:
        """Itself, as of MessageRanges."""
        return (self,)


@dataclass(frozen=True)
class MessageRanges:
    """Messages of several partitions of a topic, one range after the other; see Split."""

    ranges: tuple[MessageRange, ...] = field(default=(), metadata=many(MessageRange))

    @property
    def rows(self) -> int:
        """The offsets in all."""
        return sum(one.rows for one in self.ranges)

    @property
    def where(self) -> str:
        """The first offsets, and how many partitions follow."""
        return f"{self.ranges[0].where} and {len(self.ranges) - 1} more"
