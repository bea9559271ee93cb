"""Streams beside batches: files that arrive, jobs that find nothing new, and how long a message takes until a version knows it.

    python -m benchmarks.streams DATA WAREHOUSE [--only files idle latency] [--rate 30000] [--seconds 600] [--spread 1]

DATA is a file of the log. Printed: `value unit name`, a line each. The broker is librdkafka's mock cluster, in a process of its
own with the producer, on the same cores; it keeps the last five megabytes of a partition only.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

import xpsql
from benchmarks.kafka import TOPIC, events
from benchmarks.process import measure
from tests.notes import Notes
from tests.streams.broker import MockCluster
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.manifest import Manifest

PARTITIONS = 64
TICK_SECONDS = 0.1
SETTLE_SECONDS = 12.0
"""From the last message until the training is asked to stop: a publication or two."""
ROUNDS = 3
STOOD = re.compile(r"stood still for (\d+) ms")
JOB = "CONTINUE MODEL stream WITH (until = 'available') AS SELECT * FROM STREAM parquet.`{data}`"


class Sent(NamedTuple):
    """Messages that were produced together: when, where, and the offset after the last."""

    time: float
    partition: int
    stop: int
    count: int


def files(data: Path, warehouse: Path) -> Iterator[tuple[float, str, str]]:
    """Yield the speed of a stream of Parquet files beside that of a query over the same, in turns; the first is not counted."""
    rows = pq.read_metadata(data).num_rows
    sources = {"stream": f"STREAM parquet.`{data}`", "batch": f"parquet.`{data}`"}
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        for number in range(ROUNDS + 1):
            for name, source in sources.items():
                settings = "WITH (until = 'available')" if name == "stream" else ""
                wall, cpu = time.perf_counter(), time.process_time()
                session.sql(f"TRAIN OR REPLACE MODEL {name} USING xftrl TIME ts {settings} AS SELECT * FROM {source}")
                if number:
                    took[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    best = {name: np.min(times, axis=0) for name, times in took.items()}
    yield rows / best["stream"][0], "rows/s", "Parquet files, learned as a stream"
    yield float(best["batch"][0] / best["stream"][0]), "x", "Parquet files: times a batch training"
    yield float(best["batch"][1] / best["stream"][1]), "x", "Parquet files: times a batch training, CPU"


def idle(data: Path, warehouse: Path) -> Iterator[tuple[float, str, str]]:
    """Yield what a job takes that finds nothing new, a whole process, after `files`."""
    script = warehouse.parent / "job.sql"
    script.write_text(JOB.format(data=data), encoding="utf-8")
    command = [Path(sys.executable).with_name("xpsql"), "run", script, "--warehouse", warehouse]
    done = min((measure(command) for _ in range(ROUNDS)), key=lambda one: one.seconds)
    yield done.seconds, "s", "a job that finds nothing new"
    yield done.cpu_seconds, "s", "a job that finds nothing new, CPU"


def serve(reported: Connection, values: Sequence[bytes], rate: float, seconds: float, spread: int) -> None:
    """Produce events at a rate to a broker in this process, then tell what was produced when."""
    from confluent_kafka import Producer

    cluster = MockCluster()
    cluster.topic(TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    stops, sent, each = [0] * PARTITIONS, list[Sent](), round(rate * TICK_SECONDS)

    def tick(number: int) -> None:
        now = time.time()
        parts = [(number * spread + more) % PARTITIONS for more in range(spread)]
        for place in range(each):
            producer.produce(TOPIC, values[(number * each + place) % len(values)], None, parts[place % spread])
        producer.flush(60)
        for more, partition in enumerate(parts):
            count = len(range(more, each, spread))
            stops[partition] += count
            sent.append(Sent(now, partition, stops[partition], count))

    tick(0)
    reported.send(cluster.bootstrap)
    reported.recv()
    begin, before = time.time(), time.process_time()
    for number in range(1, round(seconds / TICK_SECONDS)):
        time.sleep(max(0.0, begin + number * TICK_SECONDS - time.time()))
        tick(number)
    reported.send((sent, time.process_time() - before, time.time() - begin))
    reported.recv()


def reached(manifest: Manifest, partition: int) -> int:
    """Return the offset up to which a version has learned a partition."""
    return int(manifest.position[f"topic {TOPIC}"]["offsets"].get(str(partition), 0))


def latency(data: Path, warehouse: Path, rate: float, seconds: float, spread: int) -> Iterator[tuple[float, str, str]]:
    """Yield how long messages take from the broker to a version that has learned them."""
    columns, values = events(str(data))
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, values, rate, seconds, spread), daemon=True)
    process.start()
    source = f"read_kafka(bootstrapServers => '{here.recv()}', subscribe => '{TOPIC}', schema => '{columns}')"
    settings = "WITH (batch_size = 4096, checkpoint_seconds = 0)"
    reported: list[tuple[list[Sent], float, float]] = []

    def wait() -> None:
        reported.append(here.recv())
        time.sleep(SETTLE_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    notes = Notes()
    with xpsql.connect(warehouse, reporter=notes) as session:
        until = settings.replace("WITH (", "WITH (until = 'available', ")
        session.sql(f"TRAIN OR REPLACE MODEL live USING xftrl TIME ts {until} AS SELECT * FROM STREAM {source}")
        cpu = time.process_time()
        here.send(True)
        threading.Thread(target=wait, daemon=True).start()
        session.sql(f"CONTINUE MODEL live PUBLISH EVERY 5 SECONDS RETAIN LAST 1000 {settings} AS SELECT * FROM STREAM {source}")
        cpu = time.process_time() - cpu
        made = [version.manifest for version in session.models.versions("live")]
    (sent, producing, took), waits = reported[0], []
    for one in sent[spread:]:
        known = (m.finished for m in made if m.finished and reached(m, one.partition) >= one.stop)
        waits.append(min((at.timestamp() for at in known), default=math.inf) - one.time)
    here.send(True)
    count = sum(one.count for one in sent[spread:])
    yield count / took, "rows/s", "PUBLISH EVERY 5 SECONDS: events produced and learned"
    for share in (50, 99):
        yield (
            float(np.percentile(waits, share, method="higher")),
            "s",
            f"PUBLISH EVERY 5 SECONDS: p{share} from the broker to a version",
        )
    stood = [float(found[1]) for note in notes.notes if (found := STOOD.search(note))]
    yield float(np.median(stood)), "ms", f"PUBLISH EVERY 5 SECONDS: learning stood still, median of {len(stood)}"
    yield max(stood), "ms", "PUBLISH EVERY 5 SECONDS: learning stood still at most"
    yield 1e6 * cpu / count, "us", "PUBLISH EVERY 5 SECONDS: CPU of the training, an event"
    yield 1e6 * producing / count, "us", "PUBLISH EVERY 5 SECONDS: CPU of broker and producer, an event"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("--rate", type=float, default=30_000, help="events a second")
    parser.add_argument("--seconds", type=float, default=600, help="how long events come")
    parser.add_argument(
        "--spread", type=int, default=1, help=f"partitions of {PARTITIONS} that get events in a tenth of a second"
    )
    figures = {
        "files": lambda: files(given.data, given.warehouse),
        "idle": lambda: idle(given.data, given.warehouse),
        "latency": lambda: latency(given.data, given.warehouse, given.rate, given.seconds, given.spread),
    }
    parser.add_argument("--only", nargs="+", choices=list(figures), default=list(figures), help="idle needs files before it")
    given = parser.parse_args()
    for group in given.only:
        for value, unit, name in figures[group]():
            print(value, unit, name, flush=True)


if __name__ == "__main__":
    main()
