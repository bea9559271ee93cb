"""Trainings on Spark while tasks and executors are killed: `python -m tests.chaos.spark FOLDER --fault worker --times 20`.

A fault is what is killed: worker, shard, executor of a worker, executor of a shard, several joined by "+"; and when: "@any",
"@checkpoint", "@recovery" or "@saving". Trainings follow each other until there were `--times` kills; after each
the invariants are checked, and with bsp the rows compared with an undisturbed training's.
Prints a line of JSON for each training, and a line of a table at the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import xpsql
from tests.chaos.model import SCHEMA, learner, mistakes, weights, write_log
from tests.chaos.victims import Fault, Killer, Tasks
from tests.clusters.standalone import standalone
from tests.java import EXECUTORS
from tests.notes import Notes
from tests.streams.broker import Broker, MockCluster
from tests.training.processes import ProcessTasks
from xpsql.platform.errors import StatementError, XpsqlError
from xpsql.platform.scoring import prediction
from xpsql.platform.training import parallelism

SETTINGS = {
    **EXECUTORS,
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "100",
}
PROCESSES, STANDALONE = "processes", "standalone"


def fault_of(text: str) -> Fault:
    """Read a fault: "executor of a shard+worker@checkpoint"."""
    kinds, _, moment = text.partition("@")
    return Fault(tuple(kinds.split("+")), moment or "any")


@contextmanager
def opened(given: argparse.Namespace, reporter: Notes) -> Iterator[xpsql.Session]:
    """Give a session on Spark, or on processes of this machine that stand for it."""
    place = given.folder / "warehouse"
    with ExitStack() as stack:
        if given.master == PROCESSES:
            session = stack.enter_context(xpsql.connect(place, reporter=reporter))
            session.engine.tasks = ProcessTasks(8)  # type: ignore[misc, assignment]
        else:
            conf = {**SETTINGS, **dict(one.split("=", 1) for one in given.conf)}
            master = stack.enter_context(standalone(given.folder)) if given.master == STANDALONE else given.master
            opening = xpsql.connect(place, engine="spark", master=master, conf=conf, reporter=reporter)
            session = stack.enter_context(opening)
        yield session


def tried(session: xpsql.Session, reporter: Notes, given: argparse.Namespace, log: Path, seed: int) -> dict[str, Any]:
    """Train once, disturbed; return what happened."""
    faults = [fault_of(text) for text in given.fault] * given.each
    tasks, began, failed = Tasks(), time.monotonic(), ""
    killer = Killer(tasks, faults, given.pause, seed)
    reporter.notes.clear()
    with tasks.watched():
        killer.start()
        try:
            session.sql(scoring(log) if given.predict else statement(given, log))
        except StatementError:
            raise  # it cannot run, however often
        except XpsqlError as error:
            failed = str(error)
        finally:
            killer.stopped.set()
            killer.join()
    found: dict[str, Any] = {"seed": seed, "seconds": round(time.monotonic() - began, 1), "killed": killer.killed}
    found |= {"failed": failed, "notes": list(reporter.notes)}
    if not failed and not given.predict:
        found["mistakes"] = mistakes(session, log, *((1, given.passes) if given.topic else (given.passes, 1)))
        info = session.sql("SELECT recovery_seconds FROM ML.TRAINING_INFO(MODEL m) WHERE recovery_seconds IS NOT NULL").arrow()
        found["recovery_seconds"] = [round(value, 1) for value in info["recovery_seconds"].to_pylist()]
    return found


def statement(given: argparse.Namespace, log: Path) -> str:
    settings = f"workers = 2, shards = 2, sync = '{given.sync}', batch_size = 100"
    settings += f", checkpoint_seconds = {given.checkpoint_seconds}"
    settings += ", until = 'available'" if given.topic else f", passes = {given.passes}"
    source = given.topic or f"parquet.`{log}`"
    vectors, using = "", learner(given.sync)
    if given.networks:
        vectors, using = "VECTORS items AS (SELECT id, array(sin(id), cos(id)) AS vector FROM range(17)) ", learner("hybrid")
        settings += ", vectors = (item IN items), vectors_run = 'shards'"
    return f"TRAIN OR REPLACE MODEL m USING {using} {vectors}WITH ({settings}) AS SELECT * FROM {source}"


def topic_of(log: Path, passes: int, stack: ExitStack) -> str:
    """Return how a query reads a topic with the rows of the log, so many times, in a broker of this process."""
    broker = Broker(stack.enter_context(closing(MockCluster())))
    topic, rows = broker.topic(4), pq.read_table(log).to_pylist()
    for partition in range(4):
        broker.produce(topic, [json.dumps(row).encode() for row in rows[partition::4]] * passes, partition)
    return f"STREAM read_kafka(bootstrapServers => '{broker.bootstrap}', subscribe => '{topic}', schema => '{SCHEMA}')"


def scoring(log: Path) -> str:
    return f"CREATE OR REPLACE TABLE scored AS SELECT * FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{log}`))"


def outcome(session: xpsql.Session, given: argparse.Namespace) -> pa.Table:
    """Return what nothing may change."""
    if not given.predict:
        return weights(session)
    scored = session.sql("SELECT user, item, label, predicted_label, count(*) AS n FROM scored GROUP BY 1, 2, 3, 4").arrow()
    return scored.sort_by([(name, "ascending") for name in scored.column_names])


def undisturbed(session: xpsql.Session, given: argparse.Namespace, log: Path) -> pa.Table | None:
    """Return the outcome of a training, or of predictions, that nobody disturbs, where that of others must equal it."""
    if given.sync != "bsp" and not given.predict:
        return None
    session.sql(statement(given, log))
    if given.predict:
        session.sql(scoring(log))
        prediction.SMALL_ROWS, parallelism.BYTES_PER_SHARD = 0, 1000  # tasks score, however few rows there are
    return outcome(session, given)


def line(given: argparse.Namespace, tries: Sequence[dict[str, Any]]) -> str:
    """Return the line of the table in docs/faults.md."""
    kills = sum(len(one["killed"]) for one in tries)
    wrong = [one for one in tries if one["failed"] or one.get("mistakes") or one.get("equal") is False]
    seconds = [value for one in tries for value in one.get("recovery_seconds", [])] or [0.0]
    result = "as in the data" if not wrong else f"{len(wrong)} trainings WRONG"
    result += ", rows equal" if not wrong and all("equal" in one for one in tries) else ""
    what = "ML.PREDICT" if given.predict else f"{given.sync}{', a topic' if given.kafka else ''}"
    name = f"{', '.join(given.fault)}: {what}, {given.master}"
    return f"| {name} | {kills} | {result} | {statistics.median(seconds):.1f}, {max(seconds):.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local-cluster[2,2,1024]", help=f"of Spark, {STANDALONE}, or {PROCESSES}")
    parser.add_argument("--fault", action="append", default=[], help="in this order; may be repeated")
    parser.add_argument("--each", type=int, default=8, help="how often a training goes through the faults")
    parser.add_argument("--times", type=int, default=3, help="how many kills there are at least")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sync", default="asp")
    parser.add_argument("--kafka", action="store_true", help="learn the log from a topic, which tasks read themselves")
    parser.add_argument("--networks", action="store_true", help="shards run a network over vectors of items")
    parser.add_argument("--predict", action="store_true", help="disturb ML.PREDICT, not the training")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--passes", type=int, default=100)
    parser.add_argument("--checkpoint-seconds", type=float, default=2.0)
    parser.add_argument("--pause", type=float, nargs=2, default=(0.2, 4.0), help="least and most seconds before a kill")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, name=value")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    given.folder.mkdir(parents=True, exist_ok=True)
    log, reporter, tries = write_log(given.folder / "log.parquet", given.rows), Notes(), list[dict[str, Any]]()
    with ExitStack() as stack:
        given.topic = topic_of(log, given.passes, stack) if given.kafka else ""
        session = stack.enter_context(opened(given, reporter))
        expected = undisturbed(session, given, log)
        while not tries or (given.fault and sum(len(one["killed"]) for one in tries) < given.times):
            tries.append(tried(session, reporter, given, log, given.seed + len(tries)))
            if expected is not None and not tries[-1]["failed"]:
                tries[-1]["equal"] = outcome(session, given).equals(expected)
            print(json.dumps(tries[-1]), flush=True)
    summary = line(given, tries)
    print(summary)
    sys.exit("WRONG" in summary)


if __name__ == "__main__":
    main()
