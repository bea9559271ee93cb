"""Jobs and resident trainings, over a topic, while processes die and brokers fail: `python -m tests.chaos.streams FOLDER`.

Messages come to a topic of three brokers; a process learns them, as a job or as a resident training, and meets a fault at a
moment drawn from the seed. The next process goes on. In the end the counts of every feature are compared with the counts of the
topic, in which some messages are twice where their producer sent them twice.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import xpsql
from tests.chaos.model import SCHEMA, write_log
from tests.streams.broker import Broker, MockCluster
from xpsql.platform.progress import SilentReporter

SECONDS = 300.0
BROKERS, PARTITIONS = 3, 4
MODES = ("job", "stays")


class World(NamedTuple):
    """Where a fault happens: the process that learns, the brokers, the topic, and what is drawn."""

    child: subprocess.Popen[str]
    cluster: MockCluster
    topic: str
    draw: random.Random


def kill(world: World) -> None:
    world.child.kill()


def break_broker(world: World) -> None:
    broker = world.draw.randint(1, BROKERS)
    world.cluster.down(broker)
    time.sleep(world.draw.uniform(0.1, 2))
    world.cluster.up(broker)


def move_leader(world: World) -> None:
    for partition in range(PARTITIONS):
        world.cluster.lead(world.topic, partition, world.draw.randint(1, BROKERS))


def slow_down(world: World) -> None:
    for broker in range(1, BROKERS + 1):
        world.cluster.slow(world.draw.randint(50, 500), broker)
    time.sleep(1)
    for broker in range(1, BROKERS + 1):
        world.cluster.slow(0, broker)


def nothing(world: World) -> None:
    """What its producer sends twice is all that happens."""


FAULTS: dict[str, Callable[[World], None]] = {
    "driver": kill,
    "broker": break_broker,
    "leader": move_leader,
    "slow broker": slow_down,
    "sent twice": nothing,
}


def run(folder: Path, mode: str, servers: str, topic: str) -> None:
    """Learn what has come, or what comes until SIGTERM; go on with what is interrupted."""
    source = f"read_kafka(bootstrapServers => '{servers}', subscribe => '{topic}', schema => '{SCHEMA}')"
    settings = "checkpoint_seconds = 0.05, batch_size = 64"
    until = "until = 'available', " if mode == "job" else ""
    clauses = "" if mode == "job" else "PUBLISH EVERY 1 SECONDS RETAIN LAST 5"
    with xpsql.connect(folder / "warehouse", "duckdb", SilentReporter(), resume=True) as session:
        verb = "CONTINUE MODEL m" if "m" in session.models.names() else "TRAIN MODEL m USING xftrl"
        print("begins", flush=True)
        session.sql(f"{verb} {clauses} WITH ({until}{settings}) AS SELECT * FROM STREAM {source}")


def process(folder: Path, mode: str, broker: Broker, topic: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.chaos.streams", str(folder), "--child", mode, broker.bootstrap, topic]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(child: subprocess.Popen[str], mode: str) -> int:
    """Let a process end by itself; return how it did."""
    if mode == "stays" and child.poll() is None:
        child.send_signal(signal.SIGTERM)
    _, errors = child.communicate(timeout=SECONDS)
    assert child.returncode in (0, -signal.SIGKILL, -signal.SIGTERM), errors  # the last before it listens
    return child.returncode


def disturbed(folder: Path, mode: str, fault: str, times: int, draw: random.Random) -> dict[str, Any]:
    """Let a fault happen so many times to processes that learn a topic as it grows; return what is wrong in the end."""
    folder.mkdir(parents=True)
    rows = pq.read_table(write_log(folder / "log.parquet", 400 * (times + 1))).to_pylist()
    sent: list[dict[str, Any]] = []
    hits = 0
    with closing(MockCluster(BROKERS)) as cluster:
        broker = Broker(cluster)
        topic = broker.topic(PARTITIONS)

        def produce(some: list[dict[str, Any]]) -> None:
            if fault == "sent twice":
                some = [row for row in some for _ in range(1 + (draw.random() < 0.3))]
            sent.extend(some)
            for partition in range(PARTITIONS):
                broker.produce(topic, [json.dumps(row).encode() for row in some[partition::PARTITIONS]], partition)

        produce(rows[:400])
        first = process(folder, "job", broker, topic)
        assert ended(first, "job") == 0  # there is a version to go on from
        for number in range(1, times + 1):
            half = 400 * number + 200
            produce(rows[400 * number : half])
            child = process(folder, mode, broker, topic)
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(draw.uniform(0, 4))
            FAULTS[fault](World(child, cluster, topic, draw))
            hits += child.poll() is None or fault == "driver"
            produce(rows[half : 400 * (number + 1)])
            ended(child, mode)
        assert ended(process(folder, "job", broker, topic), "job") == 0
    return {"hits": hits, "mistakes": mistakes(folder / "warehouse", pa.Table.from_pylist(sent))}


def mistakes(warehouse: Path, data: pa.Table) -> list[str]:
    """Return what is wrong with the counts of each user and item; nothing where all are as in the topic."""
    wrong = []
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        rows = session.sql("SELECT slot, key, count, shows, clicks FROM ML.WEIGHTS(MODEL m)").arrow()
        for slot in ("user", "item"):
            grouped = data.group_by(slot).aggregate([("label", "count"), ("label", "sum")])
            session.register("expected", grouped)
            named = session.sql(f"SELECT feature_key('{slot}', {slot}) AS key, label_count, label_sum FROM expected").arrow()
            want = {row["key"]: (row["label_count"], row["label_count"], row["label_sum"]) for row in named.to_pylist()}
            found = rows.filter(pc.equal(rows["slot"], slot)).to_pylist()
            have = {row["key"]: (row["count"], row["shows"], row["clicks"]) for row in found}
            differ = [key for key in want.keys() | have.keys() if want.get(key) != have.get(key)]
            if differ:
                wrong.append(f"{slot}: {len(differ)} of {len(want)} differ, {want.get(differ[0])} is {have.get(differ[0])}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=20, help="how often each fault happens")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run(given.folder, *given.child)
        return
    print(f"seed {given.seed}", flush=True)
    draw, failed = random.Random(given.seed), False
    for mode in given.modes:
        for fault in given.faults:
            found = disturbed(given.folder / f"{mode}-{fault}".replace(" ", "-"), mode, fault, given.times, draw)
            failed |= bool(found["mistakes"])
            result = f"{found['mistakes']} WRONG" if found["mistakes"] else "as in the topic"
            print(f"| topic, {mode}: {fault} | {found['hits']} | {result} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
