"""Messages of a topic: how a client is made, and how ranges of partitions are read."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ....warehouse.message_ranges import MessageRange
from ...errors import DataError, NotAvailableError, TrainingError
from ...system import needing
from .base import AwayError
from .kafka_options import ClientSettings

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

ANSWER_SECONDS = 30.0
"""How long a request to the brokers may take."""
SILENCE_SECONDS = 120.0
"""How long existing messages may fail to arrive, such as while brokers restart."""
POLL_SECONDS = 0.1
"""How long messages are waited for at once. All that are wanted end it sooner; offsets where transactions end never come."""
AGAIN_SECONDS = 0.2
PEEK_SECONDS = 5.0
"""How long the first messages of ranges may take together."""
AT_ONCE = 40_000
READY = 16_384
"""So many messages of a range are not kept until more arrive."""
POLICY_SECONDS = 1.0
"""How long brokers may take to say whether a topic is compacted; librdkafka's mock cluster does not say."""
READ: Mapping[str, int] = MappingProxyType({})
PEEK: Mapping[str, int] = MappingProxyType(
    {"queued.min.messages": 1, "fetch.wait.max.ms": 10, "fetch.queue.backoff.ms": 10, "max.partition.fetch.bytes": 1 << 14}
)
"""Settings of a client that wants one message of each partition, and soon: it waits for no more at the end of one."""


class Offsets(NamedTuple):
    """The offsets of a partition: from one to another, the second excluded; of transactions only committed ones."""

    low: int
    high: int


class Reached(NamedTuple):
    """One read of a range: messages, in order, and whether the range is complete."""

    messages: list[Message]
    over: bool


def consumer(settings: ClientSettings, on_error: Callable[[str], None], more: Mapping[str, int] = READ) -> Consumer:
    """Return a client that reads assigned partitions, in no consumer group, and commits nothing.

    Args:
        on_error: called with transient errors, in librdkafka's words.
        more: settings of ours for what it is to do.

    Raises:
        NotAvailableError: confluent-kafka is not installed.
        DataError: librdkafka does not take a setting.
    """
    try:
        from confluent_kafka import Consumer, KafkaException
    except ImportError as error:
        raise NotAvailableError(needing("read_kafka needs the package confluent-kafka", "kafka")) from error
    fixed: dict[str, Any] = {
        "group.id": "xpsql",  # the package wants one; it is not used
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        "log_level": 0,
        "error_cb": lambda error: on_error(settings.shown(error.str())),
    }
    try:
        return Consumer({**settings.values, **fixed, **more})
    except (KafkaException, TypeError, ValueError) as error:
        raise DataError(f"librdkafka refuses the settings of read_kafka: {settings.shown(error)}. Correct them.") from None


def offsets(settings: ClientSettings, topic: str) -> dict[int, Offsets]:
    """Return the offsets of a topic's partitions, by their numbers.

    Raises:
        DataError: no broker answers, or there is no such topic.
    """
    failures: list[str] = []
    client = consumer(settings, failures.append)
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + ANSWER_SECONDS
    try:
        found = client.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        if found.error is not None:
            raise DataError(
                f"Kafka has no topic {topic} to read: {found.error.str()}. Check its spelling, and what this user may read."
            )
        return watermarks(client, topic, sorted(found.partitions), deadline)
    except KafkaException as error:
        why = failures[-1] if failures else settings.shown(error.args[0].str())
        raise AwayError(
            f"No broker of {settings.servers} answers for topic {topic}: {why}. Check that they run, and the settings."
        ) from None
    finally:
        client.close()


def watermarks(client: Consumer, topic: str, numbers: Sequence[int], deadline: float) -> dict[int, Offsets]:
    """Return the offsets of partitions, in one request for each end; where a partition has no leader, or a broker breaks its
    connections, try again until a deadline.

    Raises:
        KafkaException: they are not known by then, or may not be known.
    """
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException

    while True:
        try:
            low, high = (offsets_at(client, topic, numbers, end, deadline) for end in (OFFSET_BEGINNING, OFFSET_END))
            return {number: Offsets(low[number], high[number]) for number in numbers}
        except KafkaException as error:
            if time.monotonic() > deadline or error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            time.sleep(AGAIN_SECONDS)
            with contextlib.suppress(KafkaException):  # the next try says what is wrong
                client.list_topics(topic, timeout=max(1.0, deadline - time.monotonic()))


def offsets_at(client: Consumer, topic: str, numbers: Sequence[int], end: int, deadline: float) -> dict[int, int]:
    """Return the offsets at one end of partitions: ends stand for times.

    Raises:
        KafkaException: one is not known.
    """
    from confluent_kafka import KafkaException, TopicPartition

    asked = [TopicPartition(topic, number, end) for number in numbers]
    found = client.offsets_for_times(asked, timeout=max(1.0, deadline - time.monotonic()))
    if (wrong := next((one.error for one in found if one.error is not None), None)) is not None:
        raise KafkaException(wrong)
    return {one.partition: one.offset for one in found}


def is_compacted(settings: ClientSettings, topic: str) -> bool:
    """Return whether brokers say that a topic is compacted; False where they do not tell: whoever asks needs a right to."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

    quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}
    resources = [ConfigResource("topic", topic)]
    try:
        (answer,) = (
            AdminClient({**settings.values, **quiet}).describe_configs(resources, request_timeout=POLICY_SECONDS).values()
        )
        return "compact" in answer.result(2 * POLICY_SECONDS)["cleanup.policy"].value
    except (KafkaException, KeyError, TimeoutError):
        return False


def begun_at(settings: ClientSettings, ranges: Sequence[MessageRange]) -> list[int]:
    """Return the time of the first message of each range, in milliseconds since 1970, so that ranges furthest behind come
    first; 0 where it has none, or it does not arrive within seconds."""
    client, found = consumer(settings, lambda why: None, PEEK), dict.fromkeys(ranges, 0)
    from confluent_kafka import TopicPartition

    deadline = time.monotonic() + PEEK_SECONDS
    try:
        for some in one_of_each(ranges):
            client.assign([TopicPartition(one.topic, one.partition, one.start) for one in some.values()])
            while some and (message := client.poll(max(0.0, deadline - time.monotonic()))) is not None:
                wanted = some.pop(-1 if (number := message.partition()) is None else number, None)
                if wanted is not None and message.error() is None:
                    found[wanted] = max(0, message.timestamp()[1])
    finally:
        client.close()
    return [found[wanted] for wanted in ranges]


def one_of_each(ranges: Sequence[MessageRange]) -> Iterator[dict[int, MessageRange]]:
    """Yield the first range of each partition by its number, then the second ones, and so on: a client reads a partition at one
    place at a time."""
    left = list(ranges)
    while left:
        some: dict[int, MessageRange] = {}
        left = [one for one in left if some.setdefault(one.partition, one) is not one]
        yield some


def read_ranges(settings: ClientSettings, ranges: Sequence[MessageRange], rows: int) -> Iterator[list[Message]]:
    """Yield the messages of ranges of different partitions, one range after the other, in lists none of which goes beyond a
    multiple of `rows` messages.

    All are fetched side by side, and kept until it is their turn: several ranges have few messages.

    Raises:
        DataError: some messages are gone, or cannot be read.
        TrainingError: no message has arrived for two minutes.
    """
    failures: list[str] = []
    client = consumer(settings, failures.append)
    from confluent_kafka import TopicPartition

    coming = {one.partition: one for one in ranges}
    left = {one.partition: one.rows for one in ranges}
    arrived: dict[int, list[Message]] = {one.partition: [] for one in ranges}
    ready: list[Message] = []
    held, since = 0, time.monotonic()
    try:
        client.assign([TopicPartition(one.topic, one.partition, one.start) for one in ranges])
        while coming:
            came = by_partition(client.consume(min(AT_ONCE, sum(left.values())), POLL_SECONDS), coming)
            over, new = [], False
            for number, some in came.items():
                wanted = coming[number]
                found = sorted_out(some, wanted, failures.append)
                if found.messages:
                    arrived[number] += found.messages
                    left[number], new = wanted.stop - offset_of(found.messages[-1]) - 1, True
                if found.over:
                    over.append(TopicPartition(wanted.topic, number))
                    del coming[number], left[number]
            while arrived:  # those whose turn it is: up to the first range that is not whole
                number = next(iter(arrived))
                ready += arrived[number]
                arrived[number] = []
                if number in coming:
                    break
                del arrived[number]
            while ready and (len(ready) >= min(READY, rows - held) or not coming):
                some, ready = ready[: rows - held], ready[rows - held :]
                held = (held + len(some)) % rows
                yield some
            if new:
                since = time.monotonic()  # after the yield: the consumer may have taken long
            if coming and over:
                client.pause(over)  # more may have arrived there since
            if coming and time.monotonic() - since > SILENCE_SECONDS:
                why = failures[-1] if failures else "the brokers gave no reason"
                where = next(iter(coming.values())).where
                raise TrainingError(
                    f"No message of {where} arrived for {SILENCE_SECONDS:.0f} s: {why}. Check the brokers, and RESUME."
                )
    finally:
        client.close()


def by_partition(came: list[Message], coming: Mapping[int, MessageRange]) -> dict[int, list[Message]]:
    """Return messages and events by their partition, of those that are read; an event of none is the first one's."""
    from confluent_kafka import Message

    first = next(iter(coming))
    found: dict[int, list[Message]] = {}
    for number, run in itertools.groupby(came, Message.partition):
        found.setdefault(first if number is None or number < 0 else number, []).extend(run)
    return {number: some for number, some in found.items() if number in coming}


def sorted_out(came: list[Message], wanted: MessageRange, on_error: Callable[[str], None]) -> Reached:
    """Return the messages that belong to a range, and whether the range is complete.

    Args:
        on_error: called with errors that may be transient.

    Raises:
        DataError: the range is gone, or cannot be read.
    """
    from confluent_kafka import KafkaError, Message

    if came and not any(map(Message.error, came)) and offset_of(came[-1]) < wanted.stop - 1:
        return Reached(came, False)
    messages: list[Message] = []
    for message in came:
        error, offset = message.error(), offset_of(message)
        if error is None:
            if offset < wanted.stop:
                messages.append(message)
            if offset >= wanted.stop - 1:
                return Reached(messages, True)
        elif error.code() == KafkaError._PARTITION_EOF:
            if offset >= wanted.stop:  # the last offsets are no messages, but ends of transactions
                return Reached(messages, True)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise DataError(
                f"Kafka does not have all of {wanted.where} any more: {error.str()}. Make it keep messages longer "
                "(retention.ms); a new CONTINUE WITH (data_loss = 'continue') learns what is left."
            )
        elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._BAD_MSG) or error.fatal():
            raise DataError(
                f"Kafka does not give {wanted.where}: {error.str()}. Ask for the right to read it, or leave it out."
            )
        else:
            on_error(error.str())
    return Reached(messages, False)


def offset_of(message: Message) -> int:
    """Return the offset of a message, or of an event of its partition."""
    offset = message.offset()
    return -1 if offset is None else offset
