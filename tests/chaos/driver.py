"""Trainings whose driver is killed, and resumed by another: `python -m tests.chaos.driver FOLDER --times 20`.

A process trains; it is killed with `kill -9` at a moment drawn from the seed, and another one resumes the model, which may be
killed as well. When it ends by itself, the invariants are checked, and with bsp the rows compared with the rows of a training
that nobody disturbed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.chaos.model import mistakes, weights, write_log
from tests.chaos.spark import PROCESSES, STANDALONE, opened, statement
from tests.clusters.standalone import standalone
from tests.notes import Notes

RESUMED = 3
LEARNING = 0.75  # of the kills come after a checkpoint of the driver's own; the others while it starts, or at any moment
SECONDS = 600


def run(given: argparse.Namespace, log: Path) -> None:
    """Be the driver: train, or resume what is interrupted; write the rows and what is wrong."""
    reporter = Notes()
    with opened(given, reporter) as session:
        statuses = session.sql("SHOW VERSIONS OF MODEL m").arrow()["status"].to_pylist() if has_model(session) else []
        print("begins", flush=True)
        session.sql("RESUME MODEL m" if statuses[-1:] == ["interrupted"] else statement(given, log))
        pq.write_table(weights(session), given.folder / "rows.parquet")
        print(json.dumps({"mistakes": mistakes(session, log, given.passes), "notes": reporter.notes}), flush=True)


def has_model(session: Any) -> bool:
    return "m" in session.sql("SHOW MODELS").arrow()["name"].to_pylist()


def driver(given: argparse.Namespace) -> subprocess.Popen[str]:
    """Start a driver in a session of its own, with what it starts."""
    command = [sys.executable, "-m", "tests.chaos.driver", *sys.argv[1:], "--master", given.master, "--child"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def until_checkpoint(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a driver has taken a checkpoint, or has ended."""
    began, deadline = time.time(), time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        written = (path.stat().st_mtime for path in folder.glob("warehouse/models/m/v*/checkpoints/*/manifest.json"))
        with contextlib.suppress(FileNotFoundError):  # an old one was removed meanwhile
            if max(written, default=0.0) > began:
                return
        time.sleep(0.05)


def disturbed(given: argparse.Namespace, kills: int, draw: random.Random) -> dict[str, Any]:
    """Train, and kill the driver so many times; return what the last one found."""
    killed = []
    for _ in range(kills):
        with driver(given) as process:
            began = time.monotonic()
            assert process.stdout is not None
            process.stdout.readline()
            if draw.random() < LEARNING:
                until_checkpoint(given.folder, process)
            try:
                process.wait(draw.uniform(*given.pause))
                break  # it was faster
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                killed.append(round(time.monotonic() - began, 2))
    with driver(given) as process:
        said, _ = process.communicate(timeout=SECONDS)
        return {"killed": killed, "code": process.returncode, **json.loads(said.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local[4]", help=f"of Spark, {STANDALONE}, or {PROCESSES}")
    parser.add_argument("--times", type=int, default=3, help="how many kills there are at least")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sync", default="asp")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--passes", type=int, default=60)
    parser.add_argument("--checkpoint-seconds", type=float, default=1.0)
    parser.add_argument("--pause", type=float, nargs=2, default=(0.0, 5.0), help="least and most seconds before a kill")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, name=value")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(topic="", networks=False)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    log = write_log(given.folder / "log.parquet", given.rows)
    if given.child:
        run(given, log)
        return
    with ExitStack() as stack:
        if given.master == STANDALONE:  # which outlives the drivers that are killed
            given.master = stack.enter_context(standalone(given.folder))
        sys.exit(drivers(given))


def drivers(given: argparse.Namespace) -> bool:
    """Disturb trainings until there were so many kills; print what came of it, and tell whether anything was wrong."""
    print(f"seed {given.seed}", flush=True)
    draw, kills, wrong = random.Random(given.seed), 0, 0
    expected: pa.Table | None = None
    if given.sync == "bsp":
        disturbed(given, 0, draw)
        expected = pq.read_table(given.folder / "rows.parquet")
    while kills < given.times:
        found = disturbed(given, min(RESUMED, given.times), draw)
        if expected is not None:
            found["equal"] = pq.read_table(given.folder / "rows.parquet").equals(expected)
        kills += len(found["killed"])
        wrong += bool(found["code"] or found["mistakes"] or found.get("equal") is False)
        print(json.dumps(found), flush=True)
    result = f"{wrong} WRONG" if wrong else f"as in the data{', rows equal' if expected is not None else ''}"
    master = STANDALONE if given.master.startswith("spark://") else given.master
    print(f"| driver, then RESUME: {given.sync}, {master} | {kills} | {result} | - |")
    return bool(wrong)


if __name__ == "__main__":
    main()
