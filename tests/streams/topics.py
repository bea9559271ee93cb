"""Topics whose messages are rows of the small log as JSON, and what a statement says of them."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

from tests.streams.broker import Broker
from tests.training.log import log

SCHEMA = "label INT, ts TIMESTAMP, user STRING, item BIGINT, price DOUBLE"
POISON = [
    *(b"no JSON", b"[1]", b"null", b"", None, b"\xff{}"),
    *(b'{"label": "one"}', b'{"label": 1, "ts": "noon"}', b'{"label": 1'),
]
"""Values that are no rows."""


def messages(table: pa.Table) -> list[bytes]:
    """Return rows as JSON objects; what is NULL is left out."""
    rows = table.select(["label", "ts", "user", "item", "price"]).to_pylist()
    return [json.dumps({n: v for n, v in row.items() if v is not None}, default=str).encode() for row in rows]


def produced(broker: Broker, rows: int, seed: int = 1, partitions: int = 1) -> str:
    """Return a topic in whose first partition are rows of the log."""
    topic = broker.topic(partitions)
    broker.produce(topic, messages(log(rows, seed)))
    return topic


def more(broker: Broker, topic: str, rows: int, seed: int, partition: int = 0) -> None:
    """Let more rows of the log come."""
    broker.produce(topic, messages(log(rows, seed)), partition)


def stream(broker: Broker, topic: str, options: str = f", schema => '{SCHEMA}'") -> str:
    """Return how a query reads a topic."""
    return f"read_kafka(bootstrapServers => '{broker.bootstrap}', subscribe => '{topic}'{options})"


def skipping(broker: Broker, topic: str) -> str:
    """Return how a query reads a topic without what is no row."""
    return stream(broker, topic, f", schema => '{SCHEMA}', on_error => 'skip'")


def among(good: Iterable[bytes], bad: Iterable[bytes | None]) -> list[bytes | None]:
    """Return values with others at the beginning, in the middle and at the end."""
    rows, others = list(good), list(bad)
    third = len(others) // 3
    return [*others[:third], *rows[:50], *others[third : 2 * third], *rows[50:], *others[2 * third :]]
