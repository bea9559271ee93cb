"""Trainings of the embedded engine that are killed, and resumed by another process: `python -m tests.chaos.embedded FOLDER`.

A process trains; it is killed with `kill -9`, at moments drawn from the seed, and others resume the model and are killed as
well, until one ends by itself. Then counts are compared with the data, and with one worker or bsp the rows, bit by bit, with
the rows of an undisturbed training.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

import xpsql
from tests.chaos.model import learner, mistakes, weights, write_log
from xpsql.platform.progress import SilentReporter

SECONDS = 300.0
POLL_SECONDS = 0.001
PASSES = 20
MODES = {
    "one worker": "checkpoint_seconds = {}",
    "asp": "workers = 2, shards = 2, checkpoint_seconds = {}",
    "bsp": "workers = 2, shards = 2, sync = 'bsp', checkpoint_seconds = {}",
    "hybrid": "workers = 2, shards = 2, sync = 'hybrid', checkpoint_seconds = {}",
}
EQUAL = ("one worker", "bsp")


class Moment(NamedTuple):
    """When a process is killed: so many seconds, at most, after something has begun.

    Attributes:
        begun: tells it of a version's folder.
    """

    begun: Callable[[Path], bool]
    most_seconds: float


def checkpointing(version: Path) -> bool:
    """Return whether a checkpoint is being written."""
    newest = max((version / "checkpoints").glob("*"), default=None)
    return newest is not None and not (newest / "manifest.json").exists()


def saving(version: Path) -> bool:
    """Return whether the version's rows are being written, which ends with the commit."""
    return (version / "rows").exists()


MOMENTS = {
    "any": Moment(lambda version: True, 3.0),
    "checkpoint": Moment(checkpointing, 0.03),
    "commit": Moment(saving, 0.1),
    "resume": Moment(lambda version: True, 0.3),
}


def run(folder: Path, mode: str, checkpoint_seconds: float) -> None:
    """Train, or resume what is interrupted; then tell what is wrong with the model."""
    log, warehouse = folder / "log.parquet", folder / "warehouse"
    notes: list[str] = []
    reporter = SilentReporter()
    reporter.note = notes.append  # type: ignore[method-assign]
    with xpsql.connect(warehouse, "duckdb", reporter) as session:
        versions = session.models.versions("m") if "m" in session.models.names() else []
        newest = versions[-1].manifest.status if versions else "none"
        print("begins", flush=True)
        if newest == "interrupted" and versions[-1].manifest.splits:  # killed earlier, it had not begun to learn
            session.sql("RESUME MODEL m")
        elif newest != "ready":
            options = MODES[mode].format(checkpoint_seconds)
            session.sql(f"""TRAIN MODEL m USING {learner(mode)} WITH (batch_size = 256, passes = {PASSES}, {options})
                            AS SELECT * FROM parquet.`{log}`""")
        pq.write_table(weights(session), folder / "rows.parquet")
        print(json.dumps({"mistakes": mistakes(session, log, PASSES), "notes": notes, "newest": newest}), flush=True)


def process(folder: Path, mode: str, checkpoint_seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.chaos.embedded", str(folder), "--child", mode, str(checkpoint_seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed(folder: Path, mode: str, moment: Moment, draw: random.Random) -> bool:
    """Train or resume and kill the process at a moment; return whether it was killed before it ended.

    Raises:
        AssertionError: it failed by itself.
    """
    version, deadline = folder / "warehouse" / "models" / "m" / "v1", time.monotonic() + SECONDS
    with process(folder, mode, 0.05) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while child.poll() is None and not moment.begun(version) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        try:
            child.wait(draw.uniform(0, moment.most_seconds))
        except subprocess.TimeoutExpired:
            child.kill()
        _, errors = child.communicate()
        assert child.returncode in (0, -9), errors
        return child.returncode != 0


def finished(folder: Path, mode: str, checkpoint_seconds: float = 0.05) -> dict[str, Any]:
    """Train or resume to the end and return what the process found."""
    with process(folder, mode, checkpoint_seconds) as child:
        said, errors = child.communicate(timeout=SECONDS)
        assert child.returncode == 0, errors
        return dict(json.loads(said.splitlines()[-1]))


def disturbed(folder: Path, log: Path, mode: str, moments: Sequence[str], draw: random.Random) -> dict[str, Any]:
    """Kill a training once at each moment, in turn, let it end, and return what was found and how many kills hit."""
    folder.mkdir()
    (folder / "log.parquet").symlink_to(log)
    kills = sum(killed(folder, mode, MOMENTS[moment], draw) for moment in moments)
    return {**finished(folder, mode), "kills": kills}


def expected(folder: Path, log: Path, mode: str) -> Path:
    """Train without checkpoints and kills; return the file of the rows."""
    folder.mkdir()
    (folder / "log.parquet").symlink_to(log)
    assert not finished(folder, mode, 0)["mistakes"]
    return folder / "rows.parquet"


def rounds(folder: Path, mode: str, times: int, moment: str, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Disturb trainings at one moment, three kills each, until so many kills have hit; yield what each ended with."""
    log = write_log(folder / "log.parquet", 20_000)
    rows = pq.read_table(expected(folder / "expected", log, mode)) if mode in EQUAL else None
    kills = number = 0
    while kills < times:
        own = folder / str(number)
        found = disturbed(own, log, mode, ["any" if moment == "resume" else moment, moment, moment], draw)
        if rows is not None:
            found["equal"] = pq.read_table(own / "rows.parquet").equals(rows)
        kills, number = kills + found["kills"], number + 1
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=20, help="how many kills hit at least, for each mode and moment")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--moments", nargs="+", choices=list(MOMENTS), default=list(MOMENTS))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run(given.folder, given.child[0], float(given.child[1]))
        return
    print(f"seed {given.seed}", flush=True)
    draw, failed = random.Random(given.seed), False
    for mode in given.modes:
        for moment in given.moments:
            folder = given.folder / f"{mode}-{moment}".replace(" ", "-")
            folder.mkdir(parents=True)
            found = list(rounds(folder, mode, given.times, moment, draw))
            wrong = sum(bool(one["mistakes"]) or one.get("equal") is False for one in found)
            failed |= bool(wrong)
            result = f"{wrong} WRONG" if wrong else "as in the data" + (", rows equal" if mode in EQUAL else "")
            print(f"| embedded, {mode}: {moment} | {sum(one['kills'] for one in found)} | {result} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
