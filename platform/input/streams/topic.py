"""A Kafka topic as a stream: messages are appended to its partitions and are immutable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ....warehouse.entries import Split
from ....warehouse.message_ranges import MessageRange, MessageRanges
from ...display import plural
from ...engines.base import Scan
from ...errors import DataError, StatementError
from .base import Position
from .kafka_options import KafkaOptions, check_settings, settings_of
from .messages import Offsets, begun_at, is_compacted, offsets

RANGE_MESSAGES = 122_880
"""The most messages of a split: as many rows as a row group of a table has, so that both are cut alike."""
SPLIT_MESSAGES = 16_384
"""The most messages of a split of several ranges; more are split, so that workers share them."""
EARLIEST = -2
"""The number that stands for the first offset, as in Spark."""


class Arrived(NamedTuple):
    """What arrived in a partition: the messages from one offset to another, the second excluded."""

    partition: int
    start: int
    stop: int


class TopicStream:
    """The messages of a topic, in order within a partition; partitions advance side by side.

    The position has, for each partition, the offset after the last learned message, and the number of learned messages.

    Args:
        topic: one; a model that learns from two streams continues with each in turn.
        forgives: messages that are gone, and partitions that were replaced, are skipped.

    Raises:
        StatementError: the options cannot be used; says why.
    """

    def __init__(self, topic: str, options: KafkaOptions, warehouse: Path, forgives: bool) -> None:
        check_settings(options)
        self._topic = one_topic(topic)
        self._begins = beginnings(options.starting_offsets, self._topic)
        self._options = options
        self._settings = settings_of(options)
        self._warehouse = warehouse
        self._forgives = forgives

    @property
    def name(self) -> str:
        """The topic's, as messages call it."""
        return f"topic {self._topic}"

    def waits(self, position: Position) -> bool:
        """Return whether partitions have messages after the position."""
        learned, found = known(position), offsets(self._settings, self._topic)
        return learned.keys() - found.keys() != set() or any(
            at.high != learned.get(number, self._begins.get(number, at.low)) for number, at in found.items()
        )

    def news(self, position: Position) -> list[Split]:
        """List ranges of what arrived in each partition, ordered by the times at which they begin: the range furthest behind is
        next. What is one split has no order."""
        found, learned = offsets(self._settings, self._topic), known(position)
        self._check(found, learned)
        if not learned and not self._forgives and is_compacted(self._settings, self._topic):
            raise DataError(
                f"Topic {self._topic} is compacted (cleanup.policy): a training that is resumed may find fewer messages than "
                "it had. Learn from a topic whose messages are deleted only by time; WITH (data_loss = 'continue') begins."
            )
        arrived = [Arrived(number, self._start(number, at, learned), at.high) for number, at in sorted(found.items())]
        ranges = cut(self._topic, [one for one in arrived if one.start < one.stop])
        if len({one.partition for one in ranges}) > 1 and sum(one.rows for one in ranges) > SPLIT_MESSAGES:
            ranges = in_order(ranges, begun_at(self._settings, ranges))
        return grouped(ranges)

    def after(self, position: Position, splits: Sequence[Split]) -> Position:
        """Return the position after all messages that are learned from."""
        from .message_source import ranges_of

        ranges = [one for split in splits for one in ranges_of(split)]
        reached = known(position)
        for one in ranges:
            reached[one.partition] = max(one.stop, reached.get(one.partition, 0))
        messages = position.get("messages", 0) + sum(one.rows for one in ranges)
        return {"offsets": {str(number): reached[number] for number in sorted(reached)}, "messages": messages}

    def forgiven(self, position: Position) -> Position:
        """Return the position at the first messages that are left, without partitions that are gone."""
        learned = known(position)
        if not learned:
            return position
        found = offsets(self._settings, self._topic)
        left = {number: self._start(number, at, learned) for number, at in sorted(found.items()) if number in learned}
        return position if left == learned else {**position, "offsets": {str(number): at for number, at in left.items()}}

    def noticed(self, position: Position) -> str | None:
        """Return nothing: what is gone stops a training, or is passed over."""
        return None

    def counted(self, position: Position) -> str:
        """Return how many messages and partitions that is."""
        count = len(known(position))
        return f"{position.get('messages', 0):,} messages of {count} {plural('partition', count)}"

    def scan(self, query: str, splits: Sequence[Split]) -> Scan:
        """Return how ranges are read."""
        from .decoded_scan import reading_of
        from .decoding import Decoder, schema_of
        from .message_source import MessageSource
        from .segment_scan import SegmentScan

        decoder = Decoder(None if self._options.schema is None else schema_of(self._options.schema))
        skips = self._options.on_error == "skip"
        return SegmentScan(reading_of(query, MessageSource(decoder, self._settings), skips, self._warehouse), tuple(splits))

    def _start(self, number: int, at: Offsets, learned: Mapping[int, int]) -> int:
        """Return the offset at which a partition begins; missing messages are skipped, as they are forgiven."""
        start = learned.get(number, self._begins.get(number, at.low))
        return start if at.low <= start <= at.high else at.low

    def _check(self, found: Mapping[int, Offsets], learned: Mapping[int, int]) -> None:
        """Refuse partitions that lost messages before they were learned, and partitions that were replaced.

        Raises:
            DataError: says how many messages, and from where on.
        """
        if self._forgives:
            return
        expected = {**{n: at for n, at in self._begins.items() if n not in learned}, **learned}
        if gone := sorted(expected.keys() - found.keys()):
            raise DataError(
                f"Topic {self._topic} has {len(found)} {plural('partition', len(found))}, and not number {gone[0]}, of which "
                f"offset {expected[gone[0]]} is next. It is another topic of that name; {self._remedy}"
            )
        lost = {n: found[n].low - start for n, start in sorted(expected.items()) if start < found[n].low}
        if lost:
            number = next(iter(lost))
            raise DataError(
                f"Kafka has dropped {sum(lost.values()):,} messages of topic {self._topic} before they were learned from: of "
                f"partition {number} offset {expected[number]} is next, and the first one left is {found[number].low}. Make "
                f"it keep messages longer (retention.ms); {self._remedy}"
            )
        for number, start in sorted(expected.items()):
            if start > found[number].high:
                raise DataError(
                    f"Partition {number} of topic {self._topic} ends at offset {found[number].high}, and offset {start} is "
                    f"next. It is another topic of that name, or of other brokers; {self._remedy}"
                )

    @property
    def _remedy(self) -> str:
        return "WITH (data_loss = 'continue') learns what is there now."


def one_topic(topic: str) -> str:
    """Return the name of a topic.

    Raises:
        StatementError: there are several.
    """
    if "," in topic:
        raise StatementError(f"subscribe takes one topic, got {topic!r}. Learn from each by a CONTINUE of its own.")
    return topic.strip()


def beginnings(written: str, topic: str) -> dict[int, int]:
    """Return the offset at which each partition begins; partitions that begin at their first one are left out.

    Raises:
        StatementError: it is not a list of offsets.
    """
    if written.lower() == "earliest":
        return {}
    try:
        values = {int(number): int(offset) for number, offset in json.loads(written)[topic].items()}
        if any(offset < 0 and offset != EARLIEST for offset in values.values()):
            raise ValueError(written)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StatementError(
            f"startingOffsets is 'earliest', or the offsets of partitions, '{{\"{topic}\": {{\"0\": 23}}}}'; got {written!r}."
        ) from None
    return {number: offset for number, offset in values.items() if offset != EARLIEST}


def known(position: Position) -> dict[int, int]:
    """Return the next offset of each partition."""
    return {int(number): offset for number, offset in position.get("offsets", {}).items()}


def cut(topic: str, arrived: Sequence[Arrived]) -> list[MessageRange]:
    """Return what arrived, in ranges, partition by partition."""
    return [
        MessageRange(topic, one.partition, start, min(start + RANGE_MESSAGES, one.stop))
        for one in arrived
        for start in range(one.start, one.stop, RANGE_MESSAGES)
    ]


def in_order(ranges: Sequence[MessageRange], times: Sequence[int]) -> list[MessageRange]:
    """Return ranges ordered by the times at which they begin, but always in order within a partition, whatever its clocks say;
    at equal times, partitions in turn."""
    so_far: dict[int, tuple[int, int]] = {}
    ordered = []
    for one, time in zip(ranges, times, strict=True):
        newest, turn = so_far.get(one.partition, (0, 0))
        so_far[one.partition] = key = max(time, newest), turn + 1
        ordered.append((*key, one.partition, one))
    return [one for *_, one in sorted(ordered, key=lambda entry: entry[:3])]


def grouped(ranges: Sequence[MessageRange]) -> list[Split]:
    """Return ranges as splits, in order: neighbours of few messages are one, as a client and queries of their own would cost
    more than they do. None has a partition twice, which a client reads at one place at a time."""
    groups: list[dict[int, MessageRange]] = []
    rows = SPLIT_MESSAGES
    for one in ranges:
        rows += one.rows
        if rows > SPLIT_MESSAGES or one.partition in groups[-1]:
            groups.append({})
            rows = one.rows
        groups[-1][one.partition] = one
    return [MessageRanges(tuple(group.values())) if len(group) > 1 else next(iter(group.values())) for group in groups]
