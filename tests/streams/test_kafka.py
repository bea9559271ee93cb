"""Models that learn from a topic of Kafka: each message once, and what a file of the same rows would give."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.streams.broker import Broker
from tests.streams.landing import COLUMNS, answer, go_on, learned, rows_of, train
from tests.streams.topics import POISON, SCHEMA, among, messages, more, produced, skipping, stream
from tests.training.log import log, write
from xpsql.platform.errors import DataError, NotAvailableError, StatementError
from xpsql.platform.input.streams import topic as topics
from xpsql.platform.input.streams.kafka_options import KafkaOptions, settings_of
from xpsql.platform.input.streams.message_source import ranges_of
from xpsql.platform.input.streams.topic import Arrived, TopicStream, cut, in_order
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.message_ranges import MessageRange

ROWS = "SELECT count FROM ML.WEIGHTS(MODEL m) WHERE slot = '(intercept)'"


class Notes(SilentReporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        yield session


@lengthy
def test_each_message_is_learned_once_and_the_same_job_again_makes_no_version(session: xpsql.Session, broker: Broker) -> None:
    topic = produced(broker, 500, partitions=2)
    more(broker, topic, 200, seed=2, partition=1)
    assert learned(train(session, stream(broker, topic))) == (1, "ready", 700)
    assert learned(go_on(session, stream(broker, topic))) == (1, "nothing new", 0)
    more(broker, topic, 300, seed=3, partition=1)
    assert learned(go_on(session, stream(broker, topic))) == (2, "ready", 300)
    for _ in range(2):
        assert learned(go_on(session, stream(broker, topic))) == (2, "nothing new", 0)
    assert [version.number for version in session.models.versions("m")] == [1, 2]
    assert session.sql(ROWS).arrow()["count"].to_pylist() == [1000]
    position = session.models.version("m").manifest.stream.position
    assert position == {f"topic {topic}": {"offsets": {"0": 500, "1": 500}, "messages": 1000}}


@costly
@pytest.mark.parametrize(
    ("columns", "where"),
    [(COLUMNS, ""), ("label, ts, upper(user) AS user, item + 1 AS item, price * 2 AS price", "WHERE item > 5")],
)
def test_a_topic_of_one_partition_is_learned_bit_for_bit_as_a_file_of_the_same_rows(
    session: xpsql.Session, broker: Broker, tmp_path: Path, columns: str, where: str
) -> None:
    topic, before = produced(broker, 900), write(log(900, 1), tmp_path / "a.parquet")
    train(session, f"{stream(broker, topic)} {where}", columns)
    settings = "TIME ts WITH (workers = 1, batch_size = 64)"
    session.sql(f"TRAIN MODEL batch USING xftrl {settings} AS SELECT {columns} FROM parquet.`{before}` {where}")
    assert rows_of(session).equals(rows_of(session, "batch"))
    more(broker, topic, 400, seed=3)
    after = write(log(400, 3), tmp_path / "b.parquet")
    go_on(session, f"{stream(broker, topic)} {where}", columns)
    session.sql(f"CONTINUE MODEL batch AS SELECT {columns} FROM parquet.`{after}` {where}")
    assert rows_of(session).equals(rows_of(session, "batch"))
    found, expected = (session.models.version(model).manifest.metrics for model in ("m", "batch"))
    assert found.keys() == expected.keys()
    for name, value in expected.items():  # sums of parts that end at other batches
        assert found[name] == (None if value is None else pytest.approx(value, rel=1e-12)), name


@costly
def test_messages_are_cut_as_row_groups_are(
    session: xpsql.Session, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "RANGE_MESSAGES", 200)
    topic, file = produced(broker, 900), write(log(900, 1), tmp_path / "a.parquet", row_group_rows=200)
    train(session, stream(broker, topic))
    session.sql(f"TRAIN MODEL batch USING xftrl TIME ts WITH (batch_size = 64) AS SELECT {COLUMNS} FROM parquet.`{file}`")
    assert rows_of(session).equals(rows_of(session, "batch"))


@costly
def test_spark_learns_the_same_rows_of_a_topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Workers ask the brokers themselves, in tasks as in threads, and note what they pass over."""
    columns, found, noted = "label, ts, upper(user) AS user, item + 1 AS item, price", [], []
    topic = broker.topic()
    broker.produce(topic, among(messages(log(500)), POISON))
    for engine in ("duckdb", spark):
        with xpsql.connect(tmp_path / str(len(found)), engine, SilentReporter()) as session:
            assert learned(train(session, skipping(broker, topic), columns)) == (1, "ready", 500)
            assert learned(go_on(session, skipping(broker, topic), columns)) == (1, "nothing new", 0)
            found.append(rows_of(session).to_pylist())
            noted.append(skipped(session, 1))
    assert found[0] == found[1]
    assert noted[0] == noted[1]
    assert len(noted[0]) == len(POISON)


def test_without_a_schema_the_columns_are_those_of_a_message(session: xpsql.Session, broker: Broker) -> None:
    topic = produced(broker, 100)
    broker.produce(topic, messages(log(50, 2)), key=b"later")
    parsed = "from_json(value, 'label INT, user STRING')"
    columns = f"{parsed}.label AS label, {parsed}.user AS user, coalesce(key, 'sooner') AS key, topic, partition, timestamp"
    raw = stream(broker, topic, "")
    first = train(session, f"{raw} WHERE offset BETWEEN 50 AND 119", columns.replace("timestamp", "timestamp AS ts"))
    assert learned(first) == (1, "ready", 70)
    counts = "SELECT slot, count FROM ML.WEIGHTS(MODEL m) WHERE slot IN ('key', 'topic', 'partition') ORDER BY slot, count"
    found = [tuple(row.values()) for row in session.sql(counts).arrow().to_pylist()]
    assert found == [("key", 20), ("key", 50), ("partition", 70), ("topic", 70)]


def test_a_model_may_begin_at_offsets_of_its_own(session: xpsql.Session, broker: Broker) -> None:
    topic = produced(broker, 300, partitions=2)
    more(broker, topic, 100, seed=2, partition=1)
    begins = json.dumps({topic: {"0": 250, "1": -2}})
    assert learned(train(session, stream(broker, topic, f", schema => '{SCHEMA}', startingOffsets => '{begins}'"))) == (
        1,
        "ready",
        150,
    )
    assert learned(go_on(session, stream(broker, topic))) == (1, "nothing new", 0)


def test_a_message_that_is_no_row_is_an_error_with_its_offset(session: xpsql.Session, broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [*messages(log(30)), b'{"label": 1, "item": "many"}'])
    with pytest.raises(
        DataError, match=rf"at offset 30 of partition 0 of topic {topic} is not a row: item does not become bigint\."
    ):
        train(session, stream(broker, topic))


@costly
def test_messages_that_are_no_rows_are_passed_over_and_written_down(tmp_path: Path, broker: Broker) -> None:
    topic, notes = produced(broker, 100), Notes()
    with xpsql.connect(tmp_path / "warehouse", reporter=notes) as session:
        train(session, stream(broker, topic))
        values = among(messages(log(200, 2)), POISON)
        broker.produce(topic, values)
        assert learned(go_on(session, skipping(broker, topic))) == (2, "ready", 200)
        assert learned(go_on(session, skipping(broker, topic))) == (2, "nothing new", 0)
        assert [line["offset"] for line in skipped(session, 2)] == [
            100 + n for n, value in enumerate(values) if value in POISON
        ]
        reasons = {POISON.index(values[line["offset"] - 100]): line["reason"] for line in skipped(session, 2)}
        none = "it is not a JSON object"
        assert [reasons[number] for number in range(len(POISON))] == [
            *[none] * 5,
            "it is not UTF-8",
            "label does not become int",
            "ts does not become timestamp",
            none,
        ]
        assert session.sql(ROWS).arrow()["count"].to_pylist() == [300]
    assert any(note.startswith("Skipped 9 messages: ") for note in notes.said)


@lengthy
def test_columns_that_the_query_does_not_read_may_hold_anything(session: xpsql.Session, broker: Broker) -> None:
    topic = broker.topic()
    broker.produce(topic, [b'{"label": 0, "user": "a", "item": "many"}', b'{"label": 1, "user": 5, "item": []}'])
    text = f"SELECT label, user FROM STREAM {stream(broker, topic)}"
    assert learned(answer(session, f"TRAIN MODEL m USING xftrl WITH (until = 'available') AS {text}")) == (1, "ready", 2)
    counts = session.sql("SELECT count FROM ML.WEIGHTS(MODEL m) WHERE slot = 'user'").arrow()
    assert counts["count"].to_pylist() == [1, 1]


def test_another_topic_than_the_model_learned_from_is_an_error(session: xpsql.Session, broker: Broker) -> None:
    first, second = produced(broker, 100), produced(broker, 50, seed=2)
    train(session, stream(broker, first))
    with pytest.raises(StatementError, match=f"has learned from topic {first}, and not from topic {second}"):
        go_on(session, stream(broker, second))
    assert learned(go_on(session, stream(broker, second), settings=", data_loss = 'continue'")) == (2, "ready", 50)
    assert learned(go_on(session, stream(broker, first))) == (2, "nothing new", 0)


@costly
def test_messages_that_kafka_dropped_before_they_were_learned_are_an_error_with_their_number(
    session: xpsql.Session, broker: Broker
) -> None:
    broker.faults()  # a real broker keeps them
    topic = produced(broker, 100)
    train(session, stream(broker, topic))
    row = json.loads(messages(log(1))[0])
    broker.produce(topic, [json.dumps({**row, "filler": "x" * 100_000}).encode()] * 100)
    low = topics.offsets(topics.settings_of(options(broker)), topic)[0].low
    assert 100 < low < 200
    with pytest.raises(DataError, match=rf"dropped {low - 100} messages of topic {topic} .* offset 100 is next, .* is {low}\."):
        go_on(session, stream(broker, topic))
    rest = 200 - low
    assert learned(go_on(session, stream(broker, topic), settings=", data_loss = 'continue'")) == (2, "ready", rest)
    assert learned(go_on(session, stream(broker, topic))) == (2, "nothing new", 0)


def test_a_topic_that_was_made_again_is_an_error_with_offsets(broker: Broker, tmp_path: Path) -> None:
    topic = produced(broker, 100)
    strict, forgiving = (TopicStream(topic, options(broker), tmp_path, forgives) for forgives in (False, True))
    beyond, other = {"offsets": {"0": 250}, "messages": 250}, {"offsets": {"0": 50, "3": 7}, "messages": 57}
    with pytest.raises(DataError, match=f"Partition 0 of topic {topic} ends at offset 100, and offset 250 is next"):
        strict.news(beyond)
    with pytest.raises(DataError, match=f"Topic {topic} has 1 partition, and not number 3, of which offset 7 is next"):
        strict.news(other)
    assert strict.waits(beyond)
    assert strict.waits(other)
    for lost, start in ((beyond, 0), (other, 50)):
        assert forgiving.news(lost) == [MessageRange(topic, 0, start, 100)]
        forgiven = forgiving.forgiven(lost)
        assert strict.news(forgiven) == [MessageRange(topic, 0, start, 100)]
        assert not strict.waits(strict.after(forgiven, strict.news(forgiven)))


@lengthy
def test_the_partition_that_is_furthest_behind_is_next(
    session: xpsql.Session, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the times of messages; a partition's stay in order, and at equal times partitions come in turn."""
    monkeypatch.setattr(topics, "RANGE_MESSAGES", 100)
    monkeypatch.setattr(topics, "SPLIT_MESSAGES", 100)
    topic, values = broker.topic(2), messages(log(400))
    broker.produce(topic, values[:300], 0, milliseconds=range(5_000_000, 5_000_300))
    broker.produce(topic, values[300:350], 1, milliseconds=range(5_000_050, 5_000_100))
    broker.produce(topic, values[350:], 1, milliseconds=[6_000_000] * 50)
    place = TopicStream(topic, options(broker), Path(), False)
    expected = [(0, 0), (1, 0), (0, 100), (0, 200)]
    assert [(one.partition, one.start) for split in place.news({}) for one in ranges_of(split)] == expected
    assert place.news({"offsets": {"0": 300}, "messages": 300}) == [MessageRange(topic, 1, 0, 100)]  # a new partition
    train(session, stream(broker, topic))
    assert session.sql(ROWS).arrow()["count"][0].as_py() == 400
    same = cut("t", [Arrived(0, 1000, 1200), Arrived(1, 5, 155)])
    assert [(one.partition, one.start) for one in in_order(same, [7, 3, 0, 0])] == [
        *((1, 5), (1, 105), (0, 1000), (0, 1100)),
    ]
    assert [one.partition for one in in_order(same, [0] * 4)] == [0, 1, 0, 1]


def test_explain_tells_what_is_new_and_starts_nothing(session: xpsql.Session, broker: Broker) -> None:
    query = f"SELECT {COLUMNS} FROM STREAM {stream(broker, produced(broker, 100))}"
    text = f"EXPLAIN TRAIN MODEL m USING xftrl TIME ts WITH (until = 'available') AS {query}"
    reported = {row["property"]: row["value"] for row in session.sql(text).arrow().to_pylist()}
    assert (
        reported["input"] == "a stream, what is new read in place, expressions and filters evaluated piece by piece: 1 splits"
    )
    assert reported["rows"] == "100 (about: by the share that filters leave of a sample)"
    assert not session.models.names()


def test_secrets_come_from_the_environment_and_stay_out_of_the_warehouse_and_of_messages(
    session: xpsql.Session, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = produced(broker, 100)
    secured = f", schema => '{SCHEMA}', kafka.sasl.username => 'ads', `kafka.sasl.password` => {{}}"
    with pytest.raises(
        StatementError, match=r"kafka\.sasl\.password is a secret, .* write kafka\.sasl\.password => 'env:NAME'"
    ) as found:
        train(session, stream(broker, topic, secured.format("'swordfish'")))
    assert "swordfish" not in found.value.message
    from_environment = stream(broker, topic, secured.format("'env:ADS_PASSWORD'"))
    with pytest.raises(StatementError, match="the environment variable ADS_PASSWORD, which is not set"):
        train(session, from_environment)
    monkeypatch.setenv("ADS_PASSWORD", "swordfish")
    assert learned(train(session, from_environment)) == (1, "ready", 100)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    monkeypatch.setenv("ADS_JAAS", f"kafkashaded.{module} required username=\"ads\" password='swordfish';")
    again = stream(broker, topic, f", schema => '{SCHEMA}', `kafka.sasl.jaas.config` => 'env:ADS_JAAS'")
    assert learned(go_on(session, again)) == (1, "nothing new", 0)
    jaas = KafkaOptions(bootstrap_servers="x:1", kafka={"sasl.jaas.config": "env:ADS_JAAS"})
    assert settings_of(jaas).values == {"bootstrap.servers": "x:1", "sasl.username": "ads", "sasl.password": "swordfish"}
    assert "swordfish" not in settings_of(jaas).shown("no swordfish")
    files = [path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()]
    assert any(b"ADS_PASSWORD" in path.read_bytes() for path in files)
    assert not [path for path in files if b"swordfish" in path.read_bytes()]
    secured = f", schema => '{SCHEMA}', kafka.security.protocol => 'env:ADS_PASSWORD'"
    with pytest.raises(DataError, match=r"librdkafka refuses the settings of read_kafka: .*\*\*\*") as refused:
        train(session, stream(broker, topic, secured), model="n")
    assert "swordfish" not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("subscribe => 't'", r"read_kafka expects bootstrapServers => 'host:port'"),
        ("bootstrapServers => 'h:1'", "read_kafka expects subscribe, a string"),
        ("bootstrapServers => 'h:1', subscribe => 'a,b'", "subscribe takes one topic, got 'a,b'"),
        ("bootstrapServers => 'h:1', subscribe => 't', startingOffsets => 'latest'", "startingOffsets is 'earliest'"),
        (
            "bootstrapServers => 'h:1', subscribe => 't', startingOffsets => '{\"t\": {\"0\": -1}}'",
            "startingOffsets is 'earliest'",
        ),
        ("bootstrapServers => 'h:1', subscribe => 't', groupId => 'g'", "no option 'groupid'"),
        ("bootstrapServers => 'h:1', subscribe => 't', kafka.group.id => 'g'", r"takes no kafka\.group\.id"),
        (
            "bootstrapServers => 'h:1', subscribe => 't', kafka.ssl.truststore.location => 'x.jks'",
            r"Give kafka\.ssl\.ca\.location, a PEM file",
        ),
        ("bootstrapServers => 'h:1', subscribe => 't', kafka.no.such => '1'", "librdkafka refuses the settings of read_kafka"),
        (
            "bootstrapServers => 'h:1', subscribe => 't', on_error => 'stop'",
            "on_error of stream read_kafka does not take 'stop'",
        ),
    ],
)
def test_arguments_are_checked_before_anything_starts(session: xpsql.Session, arguments: str, message: str) -> None:
    with pytest.raises((StatementError, DataError), match=message):
        answer(session, f"TRAIN MODEL m USING xftrl WITH (until = 'available') AS SELECT * FROM STREAM read_kafka({arguments})")
    assert not session.models.names()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("user TEXTS", "The list of columns is not Spark SQL at 'TEXTS'. Write names and types"),
        ("user BINARY", "JSON has no BINARY, which the schema gives user"),
    ],
)
def test_a_schema_that_is_none_is_an_error(session: xpsql.Session, broker: Broker, schema: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        train(session, stream(broker, produced(broker, 5), f", schema => '{schema}'"), "user AS label, user, now() AS ts")


def test_a_topic_that_is_not_there_is_an_error(session: xpsql.Session, broker: Broker) -> None:
    with pytest.raises(DataError, match=r"Kafka has no topic nowhere to read: .* Check its spelling"):
        train(session, stream(broker, "nowhere"))


def test_the_error_without_the_package_names_the_extra(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(
        NotAvailableError, match=r"read_kafka needs the package confluent-kafka: pip install 'xpsql\[kafka\]'\."
    ):
        train(session, "read_kafka('t', bootstrapServers => 'h:1')")


def options(broker: Broker) -> KafkaOptions:
    return KafkaOptions(bootstrap_servers=broker.bootstrap, schema=SCHEMA)


def skipped(session: xpsql.Session, number: int) -> list[dict[str, object]]:
    """Return what is written down beside a version."""
    folder = session.models.version("m", number).folder / "skipped"
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
