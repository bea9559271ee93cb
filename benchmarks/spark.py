"""Measure trainings on Spark, local[2], the session's start apart, beside the embedded engine on two cores; and staging.

    python -m benchmarks.spark LOG FOLDER ROUNDS

LOG is train.parquet. Prints a line for each figure: value, unit, name.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import xpsql
from xpsql.platform.progress import SilentReporter

if TYPE_CHECKING:
    from xpsql.platform.engines.spark import SparkEngine

SETTINGS = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "2g"}
TRAIN = "TRAIN OR REPLACE MODEL ctr USING xftrl IGNORE (ts) {settings} AS SELECT * FROM parquet.`{log}`"
TWO_WORKERS = "WITH (workers = 2)"
JOIN = """
SELECT l.*, d.region FROM parquet.`{log}` l
JOIN (SELECT id AS day, concat('region', id % 7) AS region FROM range(1000)) d
ON pmod(unix_timestamp(l.ts), 1000) = d.day"""


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def trainings(session: xpsql.Session, log: Path, settings: str, rounds: int) -> list[float]:
    """Return the seconds of some trainings, the first of which starts processes and loads programs."""
    statement = TRAIN.format(settings=settings, log=log)
    return [seconds(lambda: session.sql(statement)) for _ in range(rounds + 1)]


def staging(engine: SparkEngine, log: Path, folder: Path, rounds: int) -> dict[str, float]:
    """Return the seconds of a join: staged, written by Spark as Parquet, and only computed."""
    query = JOIN.format(log=log)
    frame = engine.spark.sql(query)
    frame.write.format("noop").mode("overwrite").save()  # compiles the query
    found: dict[str, list[float]] = {"staged": [], "parquet": [], "noop": []}
    for number in range(rounds):
        found["staged"].append(seconds(lambda number=number: engine.stage(query, folder / f"staged{number}")))
        target = str(folder / f"parquet{number}")
        found["parquet"].append(seconds(lambda target=target: frame.write.parquet(target)))
        found["noop"].append(seconds(lambda: frame.write.format("noop").mode("overwrite").save()))
    return {name: statistics.median(times) for name, times in found.items()}


def main(log: str, folder: str, rounds: str) -> None:
    """Print the figures."""
    data, count = Path(log), int(rounds)
    with xpsql.connect(f"{folder}/here", reporter=SilentReporter()) as session:
        here = statistics.median(trainings(session, data, TWO_WORKERS, count)[1:])
    print(f"{here:.3f} s embedded engine, two workers", flush=True)
    start = time.perf_counter()
    with xpsql.connect(f"{folder}/there", "spark", SilentReporter(), master="local[2]", conf=SETTINGS) as session:
        print(f"{time.perf_counter() - start:.3f} s start of the session", flush=True)
        first, *others = trainings(session, data, "", count)
        there = statistics.median(others)
        print(f"{first:.3f} s first training, which starts processes", flush=True)
        print(f"{there:.3f} s training, one shard and one worker", flush=True)
        print(f"{here / there:.3f} x embedded engine", flush=True)
        for name, value in staging(session.engine, data, Path(folder), count).items():  # type: ignore[arg-type]
            print(f"{value:.3f} s a join: {name}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
