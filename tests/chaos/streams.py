"""Jobs and resident trainings, over a topic, while processes die and brokers fail: `python -m tests.chaos.streams FOLDER`.

Messages come to a topic of three brokers; a process learns them, as a job or as a resident training, and meets a fault at a
moment drawn from the seed. The next process goes on. In the end the counts of every feature are compared with the counts of the
topic, in which some messages are twice where their producer sent them twice. After a kill while a version's rows are made whole
all versions are read and checked, and in the end one must be made whole, and nothing be left over.
"""

from __future__ import annotations

import argparse
import itertools
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
from tests.chaos.spark import SETTINGS
from tests.streams.broker import Broker, MockCluster
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.resident import publication
from xpsql.warehouse.chains import compaction

SECONDS = 300.0
BROKERS, PARTITIONS = 3, 4
ENGINES = ("duckdb", "spark")
MODES = ("job", "stays")
COMPACTION = "compaction"
MOMENTS = ("written", "kept")
"""When a compaction is cut: while rows are written and wait for their version, or when it has just taken them."""


class World(NamedTuple):
    """Where a fault happens: the process that learns, the brokers, the topic, what sends one more message to it, the warehouse,
    and what is drawn."""

    child: subprocess.Popen[str]
    cluster: MockCluster
    topic: str
    send: Callable[[], None]
    warehouse: Path
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


def cut_compaction(world: World) -> None:
    moment = world.draw.choice(MOMENTS)
    until_more(world, moment)
    time.sleep(world.draw.uniform(0, 0.5) if moment == "written" else 0)
    world.child.kill()


def until_more(world: World, moment: str) -> None:
    """Wait until a compaction begins, or a version takes its rows; messages come meanwhile, as it begins with a version."""
    pattern = {"written": ".scratch/*/whole-*", "kept": "models/m/v*/whole"}[moment]
    before, deadline, sent = set(world.warehouse.glob(pattern)), time.monotonic() + SECONDS, 0.0
    while not set(world.warehouse.glob(pattern)) - before:
        assert world.child.poll() is None
        assert time.monotonic() < deadline
        if time.monotonic() - sent > 0.3:
            world.send()
            sent = time.monotonic()
        time.sleep(0.002)


def nothing(world: World) -> None:
    """What its producer sends twice is all that happens."""


FAULTS: dict[str, Callable[[World], None]] = {
    "driver": kill,
    "broker": break_broker,
    "leader": move_leader,
    "slow broker": slow_down,
    "sent twice": nothing,
    COMPACTION: cut_compaction,
}


def run(folder: Path, engine: str, mode: str, servers: str, topic: str) -> None:
    """Learn what has come, or what comes until SIGTERM; go on with what is interrupted.

    Args:
        mode: "job"; "stays"; COMPACTION: stays, and makes each version of changes whole, in files of few rows.
    """
    if mode == COMPACTION:
        publication.CHANGED_SHARE, compaction.NEWEST_SHARE, compaction.PART_ROWS = 1.0, 0.0, 4
    source = f"read_kafka(bootstrapServers => '{servers}', subscribe => '{topic}', schema => '{SCHEMA}')"
    settings = "checkpoint_seconds = 0.05, batch_size = 64"
    until = "until = 'available', " if mode == "job" else ""
    clauses = "" if mode == "job" else "PUBLISH EVERY 1 SECONDS RETAIN LAST 5"
    spark: dict[str, Any] = {"master": "local[2]", "conf": SETTINGS} if engine == "spark" else {}
    with xpsql.connect(folder / "warehouse", engine, SilentReporter(), resume=True, **spark) as session:
        verb = "CONTINUE MODEL m" if "m" in session.models.names() else "TRAIN MODEL m USING xftrl"
        print("begins", flush=True)
        session.sql(f"{verb} {clauses} WITH ({until}{settings}) AS SELECT * FROM STREAM {source}")


def process(folder: Path, engine: str, mode: str, broker: Broker, topic: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.chaos.streams", str(folder), "--child", engine, mode, broker.bootstrap, topic]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(child: subprocess.Popen[str], mode: str) -> int:
    """Let a process end by itself; return how it did."""
    if mode != "job" and child.poll() is None:
        child.send_signal(signal.SIGTERM)
    _, errors = child.communicate(timeout=SECONDS)
    assert child.returncode in (0, -signal.SIGKILL, -signal.SIGTERM), errors  # the last before it listens
    return child.returncode


def disturbed(folder: Path, engine: str, mode: str, fault: str, times: int, draw: random.Random) -> dict[str, Any]:
    """Let a fault happen so many times to processes that learn a topic as it grows; return what is wrong in the end."""
    folder.mkdir(parents=True)
    rows = pq.read_table(write_log(folder / "log.parquet", 400 * (times + 1))).to_pylist()
    sent: list[dict[str, Any]] = []
    wrong: list[str] = []
    warehouse, does = folder / "warehouse", COMPACTION if fault == COMPACTION else mode
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

        def begun() -> World:
            child = process(folder, engine, does, broker, topic)
            assert child.stdout is not None
            child.stdout.readline()
            return World(child, cluster, topic, lambda: produce([draw.choice(rows)]), warehouse, draw)

        produce(rows[:400])
        first = process(folder, engine, "job", broker, topic)
        assert ended(first, "job") == 0  # there is a version to go on from
        for number in range(1, times + 1):
            half = 400 * number + 200
            produce(rows[400 * number : half])
            world = begun()
            if fault != COMPACTION:
                time.sleep(draw.uniform(0, 4))
            FAULTS[fault](world)
            hits += world.child.poll() is None or fault in ("driver", COMPACTION)
            produce(rows[half : 400 * (number + 1)])
            ended(world.child, mode)
            wrong += damaged(warehouse) if fault == COMPACTION else []
        if fault == COMPACTION:
            world = begun()
            until_more(world, "kept")
            assert ended(world.child, mode) == 0
            wrong += [f"{path} is left over" for path in left_over(warehouse)]
        for _ in range(2):  # the first may go on with what was interrupted, and learn no more than that
            assert ended(process(folder, engine, "job", broker, topic), "job") == 0
    return {"hits": hits, "mistakes": wrong + mistakes(warehouse, pa.Table.from_pylist(sent))}


def damaged(warehouse: Path) -> list[str]:
    """Return what is wrong with the files of versions, and with their rows where each has what it has learned."""
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        checked = session.sql("CHECK MODEL m").arrow().to_pylist()
        wrong = [f"{line}" for line in checked if line["state"] != "whole"]
        for version in session.models.versions("m"):
            if version.manifest.status == "ready":
                query = f"SELECT slot, count FROM ML.WEIGHTS(MODEL m VERSION {version.number})"
                rows = session.sql(query).arrow()
                for slot in ("user", "item"):
                    count = pc.sum(rows.filter(pc.equal(rows["slot"], slot))["count"]).as_py()
                    if count != version.manifest.learned.examples_total:
                        wrong.append(f"v{version.number}, {slot}: {count}, not {version.manifest.learned.examples_total}")
    return wrong


def left_over(warehouse: Path) -> list[Path]:
    """Return what killed processes left that nobody needs."""
    patterns = (".scratch/*", "models/.trash-*", "models/m/.*-*", "models/m/v*/.*-*")
    return [path for pattern in patterns for path in warehouse.glob(pattern)]


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
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run(given.folder, *given.child)
        return
    print(f"seed {given.seed}", flush=True)
    draw, failed = random.Random(given.seed), False
    for engine, mode, fault in itertools.product(given.engines, given.modes, given.faults):
        if (mode, fault) == ("job", COMPACTION):  # what a job writes has all rows
            continue
        folder = given.folder / f"{engine}-{mode}-{fault}".replace(" ", "-")
        found = disturbed(folder, engine, mode, fault, given.times, draw)
        failed |= bool(found["mistakes"])
        result = f"{found['mistakes']} WRONG" if found["mistakes"] else "as in the topic"
        print(f"| topic, {engine}, {mode}: {fault} | {found['hits']} | {result} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
