"""A topic learned: events of 39 columns as JSON, from a broker in a process of its own, which shares the cores.

    python -m benchmarks.kafka DATA WAREHOUSE PARTITIONS

DATA is a file of the log, whose first rows are produced to librdkafka's mock cluster. It keeps the last five megabytes of a
partition only, so there are many partitions of few messages, and as many splits. Printed: `value unit name`, a line each.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

import pyarrow as pa
import pyarrow.parquet as pq

import xpsql
from tests.streams.broker import MockCluster
from xpsql.platform.progress import SilentReporter
from xpsql.platform.spark_types import spark_type

TOPIC = "samples"
MESSAGES = 8000
"""Of a partition: about 4.5 MB."""
MINUTES = 10


def events(data: str) -> tuple[str, list[bytes]]:
    """Return the columns of the log as read_kafka takes them, and rows as JSON objects."""
    table = next(iter(pq.ParquetFile(data).iter_batches(MESSAGES)))
    columns = ", ".join(f"{field.name} {spark_type(kind(field))}" for field in table.schema)
    return columns, [json.dumps(row, separators=(",", ":"), default=str).encode() for row in table.to_pylist()]


def kind(field: pa.Field) -> pa.DataType:
    """Return a column's type, of dictionaries that of their values."""
    return field.type.value_type if pa.types.is_dictionary(field.type) else field.type


def serve(reported: Connection, values: Sequence[bytes], partitions: int) -> None:
    """Produce events to a broker in this process, then tell what that took; broker and producer end when nobody listens."""
    from confluent_kafka import Producer

    cluster = MockCluster()
    cluster.topic(TOPIC, partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20})
    begin = time.perf_counter()
    for partition in range(partitions):
        for value in values:
            producer.produce(TOPIC, value, None, partition)
        assert producer.flush(60) == 0
    reported.send((cluster.bootstrap, time.perf_counter() - begin, time.process_time()))
    while reported.poll(60 * MINUTES) and reported.recv():
        reported.send(time.process_time())


def main() -> None:
    """Learn the topic twice: what the first time compiles and loads is not counted."""
    data, warehouse, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    columns, values = events(data)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, values, partitions), daemon=True)
    process.start()
    servers, seconds, before = here.recv()
    count = len(values) * partitions
    source = f"read_kafka(bootstrapServers => '{servers}', subscribe => '{TOPIC}', schema => '{columns}')"
    statement = f"TRAIN OR REPLACE MODEL m USING xftrl TIME ts WITH (until = 'available') AS SELECT * FROM STREAM {source}"
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        session.sql(statement)
        here.send(True)
        before = here.recv()
        wall, cpu = time.perf_counter(), time.process_time()
        learned = session.sql(statement).arrow()["examples"][0].as_py()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    here.send(True)
    brokers = here.recv() - before
    here.send(False)
    assert learned == count
    print(count / seconds, "rows/s", "Kafka, JSON of 39 columns: events produced")
    print(count / wall, "rows/s", "Kafka, JSON of 39 columns: events learned")
    print(1e6 * cpu / count, "us", "Kafka, JSON of 39 columns: CPU of the training, an event")
    print(1e6 * brokers / count, "us", "Kafka, JSON of 39 columns: CPU of the broker, an event")


if __name__ == "__main__":
    main()
