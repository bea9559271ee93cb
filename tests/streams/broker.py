"""A Kafka broker for tests: librdkafka's mock cluster, which comes with confluent-kafka and listens on real ports.

A real one is used where KAFKA_BOOTSTRAP names it; faults can be made in the mock alone. What a test needs beside topics it does
by the functions of librdkafka's rdkafka_mock.h.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest

REAL = os.environ.get("KAFKA_BOOTSTRAP")
PRODUCER = 0  # of rd_kafka_type_t: it does nothing but own the cluster
CHECKED = {"linger.ms": 5, "acks": "all"}


class MockCluster:
    """Brokers in this process, which any process of this machine reaches; gone when it is closed."""

    def __init__(self, brokers: int = 1) -> None:
        self._library = library()
        self._error = ctypes.create_string_buffer(512)
        settings = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(settings, b"log_level", b"0", self._error, 512)
        self._handle = self._library.rd_kafka_new(PRODUCER, settings, self._error, 512)
        assert self._handle, self._error.value
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, brokers)
        self.bootstrap = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def topic(self, name: str, partitions: int) -> None:
        """Make a topic."""
        assert not self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)

    def down(self, broker: int = 1) -> None:
        """Let a broker break its connections and take no others."""
        assert not self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def up(self, broker: int = 1) -> None:
        """Let a broker that is down answer again."""
        assert not self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Let another broker lead a partition."""
        assert not self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker)

    def slow(self, milliseconds: int, broker: int = 1) -> None:
        """Let every answer of a broker take so long."""
        assert not self._library.rd_kafka_mock_broker_set_rtt(self._cluster, broker, milliseconds)

    def close(self) -> None:
        """End the brokers."""
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)


def library() -> ctypes.CDLL:
    """Return the librdkafka of the package, with the types of what is called: without them pointers would be cut."""
    found = importlib.util.find_spec("confluent_kafka")
    assert found is not None
    assert found.origin is not None
    (path,) = (Path(found.origin).parent.parent / "confluent_kafka.libs").glob("librdkafka*")
    loaded, pointer = ctypes.CDLL(str(path)), ctypes.c_void_p
    for name in ("conf_new", "new", "mock_cluster_new"):
        getattr(loaded, f"rd_kafka_{name}").restype = pointer
    loaded.rd_kafka_conf_set.argtypes = [pointer, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    loaded.rd_kafka_new.argtypes = [ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_size_t]
    loaded.rd_kafka_mock_cluster_new.argtypes = [pointer, ctypes.c_int]
    loaded.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    loaded.rd_kafka_mock_topic_create.argtypes = [pointer, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    loaded.rd_kafka_mock_partition_set_leader.argtypes = [pointer, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32]
    loaded.rd_kafka_mock_broker_set_rtt.argtypes = [pointer, ctypes.c_int32, ctypes.c_int]
    for name in ("mock_broker_set_down", "mock_broker_set_up"):
        getattr(loaded, f"rd_kafka_{name}").argtypes = [pointer, ctypes.c_int32]
    for name in ("mock_cluster_bootstraps", "mock_cluster_destroy", "destroy"):
        getattr(loaded, f"rd_kafka_{name}").argtypes = [pointer]
    return loaded


class Broker:
    """Topics of one test.

    Attributes:
        bootstrap: where clients begin.
        mock: makes faults; None where the broker is real.
    """

    def __init__(self, mock: MockCluster | None) -> None:
        self.mock = mock
        self.bootstrap = REAL or (mock.bootstrap if mock is not None else "")

    def topic(self, partitions: int = 1) -> str:
        """Make a topic of a new name."""
        name = f"xpsql-{uuid.uuid4().hex[:12]}"
        if self.mock is not None:
            self.mock.topic(name, partitions)
            return name
        from confluent_kafka.admin import AdminClient, NewTopic

        for made in AdminClient({"bootstrap.servers": self.bootstrap}).create_topics([NewTopic(name, partitions)]).values():
            made.result(30)
        return name

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        partition: int = 0,
        key: bytes | None = None,
        milliseconds: Iterable[int] | None = None,
    ) -> None:
        """Append messages to a partition; they are there when this returns.

        Args:
            milliseconds: the times that they say, since 1970; None: now.
        """
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap, **CHECKED})
        times = itertools.repeat(0) if milliseconds is None else milliseconds
        for value, time in zip(values, times, strict=False):
            while True:
                try:
                    producer.produce(topic, value, key, partition, timestamp=time)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0

    def faults(self) -> MockCluster:
        """Return what makes faults; a real broker skips the test."""
        if self.mock is None:
            pytest.skip("faults are made in the mock cluster")
        return self.mock
