"""Measure trainings on Spark, local[2], the session's start apart, beside the embedded engine on two cores; and staging.

    python -m benchmarks.spark LOG FOLDER ROUNDS

LOG is train.parquet. Prints a line for each figure: value, unit, name.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import xpsql
from xpsql.platform.progress import SilentReporter

if TYPE_CHECKING:
    from xpsql.platform.engines.spark.engine import SparkEngine

SETTINGS = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "2g"}
TRAIN = "TRAIN OR REPLACE MODEL ctr USING xftrl IGNORE (ts) {settings} AS SELECT * FROM parquet.`{log}`"
TWO_WORKERS = "WITH (workers = 2)"
SPARK, EMBEDDED = "one shard and one worker", "embedded engine as it comes"
JOIN = """
SELECT l.*, d.region FROM parquet.`{log}` l
JOIN (SELECT id AS day, concat('region', id % 7) AS region FROM range(1000)) d
ON pmod(unix_timestamp(l.ts), 1000) = d.day"""


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def trainings(sessions: Mapping[str, tuple[xpsql.Session, str]], log: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of trainings by sessions, each with its settings, in turns; the first of each starts processes."""
    found: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(rounds + 1):
        for name, (session, settings) in sessions.items():
            statement = TRAIN.format(settings=settings, log=log)
            found[name].append(seconds(lambda session=session, statement=statement: session.sql(statement)))
    return found


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
    start = time.perf_counter()
    with (
        xpsql.connect(f"{folder}/there", "spark", SilentReporter(), master="local[2]", conf=SETTINGS) as session,
        xpsql.connect(f"{folder}/here", reporter=SilentReporter()) as embedded,
    ):
        print(f"{time.perf_counter() - start:.3f} s start of the session", flush=True)
        sessions = {SPARK: (session, ""), "embedded engine, two workers": (embedded, TWO_WORKERS), EMBEDDED: (embedded, "")}
        found = trainings(sessions, data, count)
        print(f"{found[SPARK][0]:.3f} s first training, which starts processes", flush=True)
        medians = {name: statistics.median(times[1:]) for name, times in found.items()}
        for name, value in medians.items():
            print(f"{value:.3f} s {name}", flush=True)
        for name, value in medians.items():
            if name != SPARK:
                print(f"{value / medians[SPARK]:.3f} x {name}", flush=True)
        for name, value in staging(session.engine, data, Path(folder), count).items():  # type: ignore[arg-type]
            print(f"{value:.3f} s a join: {name}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
