"""Streams learned by `xftrl` on two cores: a topic, files beside a batch, a job without news, and the delay of publications.

The broker is librdkafka's mock cluster in a process of its own with the producer, on the same cores. It keeps the last five
megabytes of a partition, so there are many partitions of few messages.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import Figure, Run, spread
from benchmarks.process import Xpsql, connect, cores, cpu, figures_of, measure, num_cores, num_rows, seconds

PUBLISHED = "PUBLISH EVERY 5 SECONDS"
TARGETS = {
    "Kafka, JSON of 39 columns": ">= 60000",
    "Parquet files: times a batch training": ">= 0.9",
    "a job that finds nothing new": "<= 1.2",
    f"{PUBLISHED}: from the broker to a version, p99": "<= 10",
    f"{PUBLISHED}: learning stood still at most": "<= 20",
}
TOPIC, MESSAGES, PARTITIONS, TICK_SECONDS, SETTLE_SECONDS = "samples", 8000, 64, 0.1, 12.0
STOOD = re.compile(r"stood still for (\d+) ms")
LEARN = "TRAIN OR REPLACE MODEL {} USING xftrl TIME ts {} AS SELECT * FROM {}"
AVAILABLE = "WITH (until = 'available')"


def figures(run: Run) -> Iterator[Figure]:
    data = run.log / "train.parquet"
    with cores(min(2, num_cores())):
        yield from figures_of(topic, data, run.folder / "topic", run.size(2, 60), run.size(500, MESSAGES))
        yield from figures_of(files, data, run.folder / "files", run.rounds)
        job = f"CONTINUE MODEL stream {AVAILABLE} AS SELECT * FROM STREAM parquet.`{data}`"
        runs = [measure(Xpsql(run.folder / "files").command(job)) for _ in range(run.rounds)]
        yield spread("a job that finds nothing new", seconds(runs), "s")
        yield spread("a job that finds nothing new: CPU", cpu(runs), "s")
        yield from figures_of(latency, data, run.folder / "live", run.size(200, 30_000), run.size(6, 600))


def events(data: str, count: int) -> tuple[str, list[bytes]]:
    """Return the columns of the log as read_kafka takes them, and rows as JSON objects."""
    from xpsql.platform.spark_types import spark_type

    table = next(iter(pq.ParquetFile(data).iter_batches(count)))
    types = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    columns = ", ".join(f"{name} {spark_type(kind)}" for name, kind in zip(table.schema.names, types, strict=True))
    return columns, [json.dumps(row, separators=(",", ":"), default=str).encode() for row in table.to_pylist()]


def broker(partitions: int, linger: int) -> tuple[object, str, object]:
    """Return a broker, its address, and a producer."""
    from confluent_kafka import Producer

    from tests.streams.broker import MockCluster

    cluster = MockCluster()
    cluster.topic(TOPIC, partitions)
    settings = {"bootstrap.servers": cluster.bootstrap, "linger.ms": linger, "queue.buffering.max.messages": 1_000_000}
    return cluster, cluster.bootstrap, Producer(settings)


def started(function: object, *arguments: object) -> Connection:
    """Call a function with a connection in a process of its own; return the other end."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=function, args=(there, *arguments), daemon=True).start()  # type: ignore[arg-type]
    return here


def stream(servers: str, columns: str) -> str:
    return f"STREAM read_kafka(bootstrapServers => '{servers}', subscribe => '{TOPIC}', schema => '{columns}')"


def produce_all(asked: Connection, values: Sequence[bytes], partitions: int) -> None:
    """Produce events, then tell the CPU seconds of this process whenever asked."""
    cluster, servers, producer = broker(partitions, 20)
    for partition in range(partitions):
        for value in values:
            producer.produce(TOPIC, value, None, partition)  # type: ignore[attr-defined]
        assert producer.flush(60) == 0  # type: ignore[attr-defined]
    asked.send(servers)
    while asked.recv():
        asked.send(time.process_time())
    del cluster


def topic(data: str, warehouse: str, partitions: int, messages: int) -> Iterator[Figure]:
    """Learn a topic twice; the first time, which compiles, is not counted."""
    columns, values = events(data, messages)
    asked = started(produce_all, values, partitions)
    statement, count = LEARN.format("m", AVAILABLE, stream(asked.recv(), columns)), len(values) * partitions
    with connect(warehouse) as session:
        session.sql(statement)
        asked.send(True)
        before, wall, used = asked.recv(), time.perf_counter(), time.process_time()
        learned = session.sql(statement).arrow()["examples"][0].as_py()
        wall, used = time.perf_counter() - wall, time.process_time() - used
    asked.send(True)
    brokers = asked.recv() - before
    asked.send(False)
    assert learned == count
    yield Figure("Kafka, JSON of 39 columns", count / wall, "events/s")
    yield Figure("Kafka, JSON of 39 columns: CPU of the training, an event", 1e6 * used / count, "us")
    yield Figure("Kafka, JSON of 39 columns: CPU of the broker, an event", 1e6 * brokers / count, "us")


def files(data: str, folder: str, rounds: int) -> Iterator[Figure]:
    """Learn Parquet files as a stream and as a batch, in turns; the first turn is not counted."""
    kinds = {"stream": (AVAILABLE, f"STREAM parquet.`{data}`"), "batch": ("", f"parquet.`{data}`")}
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    with connect(Xpsql(Path(folder)).warehouse) as session:
        for turn in range(rounds + 1):
            for name, (settings, rows) in kinds.items():
                wall, used = time.perf_counter(), time.process_time()
                session.sql(LEARN.format(name, settings, rows))
                if turn:
                    took[name].append((time.perf_counter() - wall, time.process_time() - used))
    stream, batch = (np.array(took[name]) for name in kinds)
    yield spread("Parquet files, learned as a stream", list(num_rows(Path(data)) / stream[:, 0]), "rows/s")
    yield spread("Parquet files: times a batch training", list(batch[:, 0] / stream[:, 0]), "x")
    yield spread("Parquet files: times a batch training, CPU", list(batch[:, 1] / stream[:, 1]), "x")


class Sent(NamedTuple):
    """Messages that were produced together: when, where, and the offset after the last."""

    time: float
    partition: int
    stop: int
    number: int


def produce_at(asked: Connection, values: Sequence[bytes], rate: float, length: float) -> None:
    """Produce events at a rate, a partition each tenth of a second, then tell which were produced when."""
    cluster, servers, producer = broker(PARTITIONS, 5)
    stops, sent, each = [0] * PARTITIONS, list[Sent](), round(rate * TICK_SECONDS)

    def tick(number: int) -> None:
        now, partition = time.time(), number % PARTITIONS
        for place in range(each):
            producer.produce(TOPIC, values[(number * each + place) % len(values)], None, partition)  # type: ignore[attr-defined]
        producer.flush(60)  # type: ignore[attr-defined]
        stops[partition] += each
        sent.append(Sent(now, partition, stops[partition], each))

    tick(0)
    asked.send(servers)
    asked.recv()
    begin, before = time.time(), time.process_time()
    for number in range(1, round(length / TICK_SECONDS)):
        time.sleep(max(0.0, begin + number * TICK_SECONDS - time.time()))
        tick(number)
    asked.send((sent[1:], time.process_time() - before, time.time() - begin))
    asked.recv()
    del cluster


def latency(data: str, warehouse: str, rate: float, length: float) -> Iterator[Figure]:
    """Yield how long messages take from the broker to a version that has learned them."""
    import xpsql
    from tests.notes import Notes

    columns, values = events(data, MESSAGES)
    asked, notes = started(produce_at, values, rate, length), Notes()
    rows, settings = stream(asked.recv(), columns), "batch_size = 4096, checkpoint_seconds = 0"
    reported: list[tuple[list[Sent], float, float]] = []

    def wait() -> None:
        reported.append(asked.recv())
        time.sleep(SETTLE_SECONDS)  # a publication or two
        os.kill(os.getpid(), signal.SIGTERM)

    with xpsql.connect(warehouse, reporter=notes) as session:
        session.sql(LEARN.format("live", f"WITH (until = 'available', {settings})", rows))
        used = time.process_time()
        asked.send(True)
        threading.Thread(target=wait, daemon=True).start()
        session.sql(f"CONTINUE MODEL live {PUBLISHED} RETAIN LAST 1000 WITH ({settings}) AS SELECT * FROM {rows}")
        used = time.process_time() - used
        made = [version.manifest for version in session.models.versions("live")]
    (sent, producing, took), waits = reported[0], []
    asked.send(True)
    for one in sent:
        learned = [(m.finished, m.stream.position[f"topic {TOPIC}"]["offsets"].get(str(one.partition), 0)) for m in made]
        waits.append(min((at.timestamp() for at, stop in learned if at and stop >= one.stop), default=math.inf) - one.time)
    count = sum(one.number for one in sent)
    yield Figure(f"{PUBLISHED}: events produced and learned", count / took, "events/s")
    for share in (50, 99):
        waited = float(np.percentile(waits, share, method="higher"))
        yield Figure(f"{PUBLISHED}: from the broker to a version, p{share}", waited, "s")
    stood = [float(found[1]) for note in notes.notes if (found := STOOD.search(note))]
    yield Figure(f"{PUBLISHED}: learning stood still at most", max(stood), "ms")
    yield Figure(f"{PUBLISHED}: CPU of the training, an event", 1e6 * used / count, "us")
    yield Figure(f"{PUBLISHED}: CPU of broker and producer, an event", 1e6 * producing / count, "us")
