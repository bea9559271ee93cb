"""Trainings on Spark while tasks and executors are killed: `python -m tests.chaos.spark --help`.

Each try trains a model from a log of known contents, kills what it is told to at moments drawn from a seed, and checks the
invariants: count, shows and clicks of every key are those of the data times the passes, and so are the examples. With bsp the
rows are compared with those of a training that nobody disturbs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import xpsql
from xpsql.platform.errors import XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps import coordinator

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "100",
    "spark.excludeOnFailure.enabled": "false",
}
KINDS = ("worker", "shard", "executor of a worker", "executor of a shard")


class Killed(NamedTuple):
    """A process that was killed, and when, in seconds since the training began."""

    kind: str
    process: int
    seconds: float


class Tasks:
    """The processes of a training's tasks, as they join its coordinator."""

    def __init__(self) -> None:
        self._processes: dict[tuple[str, int], int] = {}
        self.joined = threading.Event()
        self.attempts = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the tasks that join, until the block is left."""
        join = coordinator.Coordinator._join

        def noted(self_: coordinator.Coordinator, request: coordinator.Join) -> coordinator.Joined:
            joined = join(self_, request)
            self.attempts = max(self.attempts, request.attempt)
            if joined.accepted:
                self._processes[request.role, request.number] = request.process
            if {role for role, _ in self._processes} == {"shard", "worker"}:
                self.joined.set()
            return joined

        coordinator.Coordinator._join = noted  # type: ignore[method-assign]
        try:
            yield
        finally:
            coordinator.Coordinator._join = join  # type: ignore[method-assign]

    def victim(self, kind: str, draw: random.Random) -> int | None:
        """Return a process to kill; None where none of the kind is known to live."""
        role = kind.split()[-1]
        living = [process for (of, _), process in sorted(self._processes.items()) if of == role and alive(process)]
        if not living:
            return None
        process = draw.choice(living)
        return executor_of(process) if kind.startswith("executor") else process


def alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def parent(process: int) -> int:
    """Return the process that started another one."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[1])


def executor_of(process: int) -> int | None:
    """Return the JVM of the executor whose daemon forked a Python worker; None where it is gone."""
    try:
        found = parent(parent(process))
    except OSError:
        return None
    return found if found > 1 else None


class Killer(threading.Thread):
    """Kills processes at random moments after the first tasks have joined."""

    def __init__(self, tasks: Tasks, kinds: list[str], pause_seconds: tuple[float, float], seed: int) -> None:
        super().__init__(name="killer", daemon=True)
        self.killed: list[Killed] = []
        self.stop = threading.Event()
        self._tasks = tasks
        self._kinds = kinds
        self._pause_seconds = pause_seconds
        self._draw = random.Random(seed)

    def run(self) -> None:
        began = time.monotonic()
        self._tasks.joined.wait(300)
        for kind in self._kinds:
            if self.stop.wait(self._draw.uniform(*self._pause_seconds)):
                return
            while (victim := self._tasks.victim(kind, self._draw)) is None:
                if self.stop.wait(0.05):
                    return
            os.kill(victim, signal.SIGKILL)
            self.killed.append(Killed(kind, victim, round(time.monotonic() - began, 2)))


class Log(SilentReporter):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.examples = 0

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        self.examples = examples

    def note(self, message: str) -> None:
        self.notes.append(message)


def write_log(path: Path, rows: int) -> Path:
    """Write a log whose counts are known; the same each time."""
    draw = np.random.default_rng(0)
    user = draw.integers(0, rows // 10, rows)
    label = (draw.random(rows) < 0.2 + 0.3 * (user % 3 == 0)).astype(np.int32)
    table = pa.table({"label": label, "user": user, "item": (user % 17).astype(str)})
    pq.write_table(table, path, row_group_size=max(rows // 8, 1))
    return path


def mistakes(session: xpsql.Session, log: Path, passes: int) -> list[str]:
    """Return what is wrong with the counts of the model; nothing where all is as in the data."""
    data = pq.read_table(log)
    wrong = []
    rows = session.sql("SELECT slot, key, count, shows, clicks FROM ML.WEIGHTS(MODEL m)").arrow()
    for slot in ("user", "item"):
        expected = data.group_by(slot).aggregate([("label", "count"), ("label", "sum")])
        found = rows.filter(pa.compute.equal(rows["slot"], slot))
        want = sorted(
            zip(
                (passes * np.asarray(expected["label_count"])).tolist(),
                (passes * np.asarray(expected["label_sum"])).tolist(),
                strict=True,
            )
        )
        for shown in ("count", "shows"):
            have = sorted(zip(found[shown].to_pylist(), found["clicks"].to_pylist(), strict=True))
            if have != want:
                wrong.append(f"{slot}: {shown} and clicks differ, {sum(n for n, _ in have)} against {sum(n for n, _ in want)}")
    examples = session.sql("SELECT examples FROM ML.EVALUATE(MODEL m)").arrow()["examples"][0].as_py()
    if examples != passes * len(data):
        wrong.append(f"{examples} examples were measured, {passes * len(data)} are in the data")
    return wrong


def weights(session: xpsql.Session) -> pa.Table:
    return session.sql("SELECT slot, key, weight, count, updates, shows, clicks FROM ML.WEIGHTS(MODEL m) ORDER BY key").arrow()


def settings_of(given: list[str]) -> dict[str, str]:
    """Return the settings of Spark with those given."""
    return {**SETTINGS, **dict(one.split("=", 1) for one in given)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local-cluster[2,2,1024]")
    parser.add_argument("--kill", action="append", default=[], choices=KINDS, help="in this order; may be repeated")
    parser.add_argument("--times", type=int, default=1, help="how often the list of kills is gone through")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sync", default="asp")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--pause", type=float, nargs=2, default=(0.5, 8.0), help="least and most seconds before a kill")
    parser.add_argument("--options", default="")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, name=value")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    given.folder.mkdir(parents=True, exist_ok=True)
    log = write_log(given.folder / "log.parquet", given.rows)
    settings = f"workers = 2, shards = 2, sync = '{given.sync}', passes = {given.passes}, batch_size = 100{given.options}"
    statement = f"TRAIN OR REPLACE MODEL m USING xftrl WITH ({settings}) AS SELECT * FROM parquet.`{log}`"
    reporter = Log()
    with xpsql.connect(
        given.folder / "warehouse", engine="spark", master=given.master, conf=settings_of(given.conf), reporter=reporter
    ) as session:
        expected = None
        if given.sync == "bsp":
            began = time.monotonic()
            session.sql(statement)
            expected = weights(session)
            print(f"undisturbed: {time.monotonic() - began:.1f} s", flush=True)
        tasks, began, failed = Tasks(), time.monotonic(), ""
        killer = Killer(tasks, given.kill * given.times, tuple(given.pause), given.seed)
        with tasks.watched():
            killer.start()
            try:
                session.sql(statement)
            except XpsqlError as error:
                failed = str(error)
        killer.stop.set()
        seconds = time.monotonic() - began
        found: dict[str, object] = {
            "seconds": round(seconds, 1),
            "killed": killer.killed,
            "failed": failed,
            "notes": reporter.notes,
        }
        if not failed:
            found["mistakes"] = mistakes(session, log, given.passes)
            if expected is not None:
                found["equal"] = weights(session).equals(expected)
            info = session.sql("SELECT recoveries, recovery_seconds FROM ML.TRAINING_INFO(MODEL m)").arrow()
            found["recovery_seconds"] = info["recovery_seconds"].drop_null().to_pylist()
        print(json.dumps(found, indent=1), flush=True)
    sys.exit(bool(failed or found.get("mistakes") or found.get("equal") is False))


if __name__ == "__main__":
    main()
