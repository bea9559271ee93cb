"""Brokers and jobs that die while a topic is learned: each message is learned once, or the error says what to do."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource

import xpsql
from tests.cases import lengthy, quick
from tests.forkserver import CONTEXT
from tests.streams.broker import Broker
from tests.streams.landing import COLUMNS, go_on, learned, rows_of, train
from tests.streams.test_kill import killed
from tests.streams.topics import SCHEMA, messages, more, produced, stream
from tests.training.log import log
from xpsql.platform.errors import DataError, TrainingError
from xpsql.platform.input.streams import messages as reading
from xpsql.platform.input.streams.kafka_options import ClientSettings, KafkaOptions
from xpsql.platform.input.streams.message_source import ranges_of
from xpsql.platform.input.streams.messages import begun_at, offsets, read_ranges, sorted_out
from xpsql.platform.input.streams.topic import TopicStream, grouped
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.message_ranges import MessageRange
from xpsql.warehouse.trainings.segments import append_segment, read_segments

ROWS = 400


@lengthy
@pytest.mark.parametrize("moment", quick(["before the segment", "while learning"], ["while learning"]))
def test_a_job_that_was_killed_learns_each_message_once(moment: str, tmp_path: Path, broker: Broker) -> None:
    topic = produced(broker, 300, partitions=2)
    source = stream(broker, topic)
    settings = "until = 'available', checkpoint_seconds = 0.01"
    statement = f"CONTINUE MODEL m WITH ({settings}) AS SELECT {COLUMNS} FROM STREAM {source}"
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter(), resume=True) as session:
        train(session, source)
        more(broker, topic, 1000, seed=2)
        more(broker, topic, 500, seed=3, partition=1)
        process = CONTEXT.Process(target=killed, args=(tmp_path / "warehouse", statement, moment))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        more(broker, topic, 200, seed=4)
        settled = moment != "before the segment"
        first = session.sql(statement).arrow().to_pylist()[0]
        assert learned(first) == ((2, "ready", 1500) if settled else (3, "ready", 1700))
        assert go_on(session, source)["examples"] == (200 if settled else 0)
        (intercept,) = [row for row in rows_of(session).to_pylist() if row["slot"] == "(intercept)"]
        assert (intercept["count"], intercept["shows"]) == (2000, 2000)


class Watched:
    """A consumer that does something before it is asked for messages the second time and the fourth."""

    def __init__(self, real: Any, second: Callable[[], None], fourth: Callable[[], None]) -> None:
        self._real = real
        self._asked = 0
        self._acts = {2: second, 4: fourth}

    def consume(self, count: int, seconds: float) -> list[Message]:
        self._asked += 1
        self._acts.get(self._asked, lambda: None)()
        found: list[Message] = self._real.consume(min(count, 50), min(seconds, 0.1))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.parametrize("fault", ["down and up", "another leader", "slow"])
def test_a_range_is_read_whole_though_its_broker_fails(faulty: Broker, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, made = faulty.faults(), reading.consumer
    topic = produced(faulty, ROWS)
    cluster.lead(topic, 0, 1)
    second, fourth = {
        "down and up": (cluster.down, cluster.up),
        "another leader": (lambda: cluster.lead(topic, 0, 2), lambda: cluster.lead(topic, 0, 1)),
        "slow": (lambda: cluster.slow(150), lambda: cluster.slow(0)),
    }[fault]
    monkeypatch.setattr(reading, "consumer", lambda *given: Watched(made(*given), second, fourth))
    settings = ClientSettings(
        {"bootstrap.servers": faulty.bootstrap, "queued.min.messages": "10", "fetch.message.max.bytes": "4000"}
    )
    found = [message for some in read_ranges(settings, [MessageRange(topic, 0, 7, ROWS - 3)], 64) for message in some]
    assert [message.offset() for message in found] == list(range(7, ROWS - 3))
    assert [message.value() for message in found] == messages(log(ROWS))[7 : ROWS - 3]


def test_lists_of_messages_end_where_chunks_end(broker: Broker) -> None:
    topic = produced(broker, ROWS)
    settings = ClientSettings({"bootstrap.servers": broker.bootstrap})
    ends = [some[-1].offset() + 1 for some in read_ranges(settings, [MessageRange(topic, 0, 0, ROWS)], 150)]
    assert {150, 300, 400} <= set(ends)


def test_ranges_of_a_split_come_one_after_the_other(broker: Broker, tmp_path: Path) -> None:
    """Though they are fetched side by side, and more has arrived since they were cut."""
    topic = broker.topic(3)
    for number in range(3):
        broker.produce(topic, [b"%d" % number] * 200, number)
    (split,) = grouped([MessageRange(topic, 2, 10, 200), MessageRange(topic, 0, 0, 150), MessageRange(topic, 1, 5, 6)])
    append_segment(tmp_path, [split])
    assert read_segments(tmp_path) == [[split]]
    lists = list(read_ranges(ClientSettings({"bootstrap.servers": broker.bootstrap}), ranges_of(split), 64))
    found = [(message.partition(), message.offset()) for some in lists for message in some]
    assert found == [(one.partition, offset) for one in ranges_of(split) for offset in range(one.start, one.stop)]
    assert {64, 128, 192, 256, 320, split.rows} <= set(itertools.accumulate(map(len, lists)))


def test_ranges_of_few_messages_are_a_split_and_none_has_a_partition_twice() -> None:
    rows = (5000, 11_000, 400, 10, 20_000, 1, 2, 3, 4)
    ranges = [MessageRange("t", number % 3, number, number + count) for number, count in enumerate(rows)]
    expected = [tuple(ranges[first:stop]) for first, stop in ((0, 2), (2, 4), (4, 5), (5, 8), (8, 9))]
    assert [ranges_of(split) for split in grouped(ranges)] == expected
    assert grouped([]) == []


def test_ranges_at_the_ends_of_many_partitions_say_when_they_begin(broker: Broker) -> None:
    """Each in milliseconds: a broker holds back what it is asked for at the end of a partition."""
    topic, partitions = broker.topic(32), range(32)
    for number in partitions:
        broker.produce(topic, [b"a", b"b", b"c"], number, milliseconds=[5, 6, 1000 + number])
    ranges = [MessageRange(topic, number, start, start + 1) for number in partitions for start in (2, 1)]
    found = begun_at(ClientSettings({"bootstrap.servers": broker.bootstrap}), ranges)
    assert found == [time for number in partitions for time in (1000 + number, 6)]


def test_brokers_that_are_gone_are_an_error_before_anything_starts(
    faulty: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "ANSWER_SECONDS", 0.5)
    topic = produced(faulty, 10)
    for number in (1, 2):
        faulty.faults().down(number)
    with (
        xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session,
        pytest.raises(DataError, match=rf"No broker of {faulty.bootstrap} answers for topic {topic}: .* Check that they run"),
    ):
        train(session, stream(faulty, topic))


class Refusing:
    """A client to which brokers refuse to say offsets at first."""

    def __init__(self, real: Any, errors: list[int]) -> None:
        self._real, self._errors = real, errors

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if self._errors:
            raise KafkaException(KafkaError(self._errors.pop()))
        found: list[TopicPartition] = self._real.offsets_for_times(asked, timeout=timeout)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_offsets_are_asked_for_again_where_connections_break(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, made = produced(broker, 10), reading.consumer
    settings = ClientSettings({"bootstrap.servers": broker.bootstrap})
    errors = [KafkaError._TRANSPORT, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._DESTROY_BROKER]
    monkeypatch.setattr(reading, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(reading, "consumer", lambda *given: Refusing(made(*given), errors))
    assert offsets(settings, topic) == {0: (0, 10)}
    errors.append(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(DataError, match="Topic authorization failed"):
        offsets(settings, topic)


def test_brokers_that_stay_silent_end_the_reading(faulty: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(reading, "POLL_SECONDS", 0.1)
    topic = produced(faulty, 10)
    for number in (1, 2):
        faulty.faults().down(number)
    settings = ClientSettings({"bootstrap.servers": faulty.bootstrap})
    with pytest.raises(TrainingError, match=rf"No message of offsets 0 to 9 of partition 0 of topic {topic} arrived for 0 s"):
        next(read_ranges(settings, [MessageRange(topic, 0, 0, 10)], 10))


def test_a_range_that_kafka_drops_while_it_is_learned_is_an_error(broker: Broker) -> None:
    broker.faults()  # a real broker keeps it
    topic = broker.topic()
    broker.produce(topic, [b"x" * 100_000] * 200)
    settings = ClientSettings({"bootstrap.servers": broker.bootstrap})
    assert offsets(settings, topic)[0].low > 10
    with pytest.raises(DataError, match=rf"Kafka does not have all of offsets 0 to 9 of partition 0 of topic {topic} any more"):
        next(read_ranges(settings, [MessageRange(topic, 0, 0, 10)], 10))


def message(offset: int, error: int | None = None) -> Message:
    return Message(topic="t", partition=0, offset=offset, value=b"{}", error=None if error is None else KafkaError(error))


@pytest.mark.parametrize(
    ("came", "reached", "over"),
    [
        ([message(5), message(6)], [5, 6], False),
        ([message(5), message(9)], [5, 9], True),
        ([message(5), message(12)], [5], True),
        ([message(5), message(10, KafkaError._PARTITION_EOF)], [5], True),
        ([message(5), message(6, KafkaError._PARTITION_EOF)], [5], False),
        ([message(5), message(6, KafkaError._TRANSPORT), message(7)], [5, 7], False),
    ],
)
def test_a_range_ends_at_its_last_offset_whether_or_not_it_is_a_message(
    came: list[Message], reached: list[int], over: bool
) -> None:
    reported: list[str] = []
    found = sorted_out(came, MessageRange("t", 0, 5, 10), reported.append)
    assert ([one.offset() for one in found.messages], found.over) == (reached, over)
    assert reported == ["Local: Broker transport failure"] * (reached == [5, 7])


def test_a_topic_that_may_not_be_read_is_an_error() -> None:
    came = [message(5), message(6, KafkaError.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(
        DataError, match="does not give offsets 5 to 9 of partition 0 of topic t: Broker: Topic authorization failed"
    ):
        sorted_out(came, MessageRange("t", 0, 5, 10), [].append)


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete"])
def test_a_topic_that_is_compacted_is_refused(broker: Broker, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    topic, options = produced(broker, 10), KafkaOptions(bootstrap_servers=broker.bootstrap)

    def described(_: AdminClient, resources: list[ConfigResource], **__: Any) -> dict[ConfigResource, Any]:
        answer: Future[dict[str, ConfigEntry]] = Future()
        answer.set_result({"cleanup.policy": ConfigEntry("cleanup.policy", policy)})
        return dict.fromkeys(resources, answer)

    monkeypatch.setattr(AdminClient, "describe_configs", described)
    strict, forgiving = (TopicStream(topic, options, Path(), forgives) for forgives in (False, True))
    assert len(forgiving.news({})) == 1
    if policy == "delete":
        assert len(strict.news({})) == 1
        return
    with pytest.raises(DataError, match=rf"Topic {topic} is compacted \(cleanup\.policy\): .* deleted only by time"):
        strict.news({})


def test_the_schema_of_tests_has_the_columns_that_they_select() -> None:
    assert [column.split()[0] for column in SCHEMA.split(", ")] == COLUMNS.split(", ")
