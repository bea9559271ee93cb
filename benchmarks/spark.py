"""Trainings on Spark, local[2], the session's start apart, in turns with the embedded engine on the same two cores."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import Figure, Run, ratio, spread
from benchmarks.process import TRAIN, connect, cores, figures_of, installed, num_cores

TARGETS = {"the embedded engine with two workers, times Spark": ">= 0.7", "the embedded engine, times Spark": ">= 0.9"}
CONF = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "2g"}
ON_SPARK, TWO, PLAIN = "Spark, one shard and one worker", "the embedded engine with two workers", "the embedded engine"


def figures(run: Run) -> Iterator[Figure]:
    if installed("pyspark", "java"):
        with cores(min(2, num_cores())):
            yield from figures_of(trainings, run.log / "train.parquet", run.folder, run.rounds)


def trainings(log: str, folder: str, rounds: int) -> Iterator[Figure]:
    """Train by each engine in turns; the first round starts processes and compiles."""
    start, found = time.perf_counter(), {name: list[float]() for name in (ON_SPARK, TWO, PLAIN)}
    with (
        connect(f"{folder}/there", "spark", master="local[2]", conf=CONF) as session,
        connect(f"{folder}/here") as embedded,
    ):
        yield Figure("start of the session", time.perf_counter() - start, "s")
        for _ in range(rounds + 1):
            for name, taken in found.items():
                settings = "WITH (workers = 2)" if name == TWO else ""
                statement = TRAIN.format(using="xftrl", settings=settings, data=log)
                start = time.perf_counter()
                (session if name == ON_SPARK else embedded).sql(statement)
                taken.append(time.perf_counter() - start)
    yield Figure("the first training, which starts processes", found[ON_SPARK][0], "s")
    for name, taken in found.items():
        yield spread(name, taken[1:], "s")
        if name != ON_SPARK:
            yield ratio(f"{name}, times Spark", taken[1:], found[ON_SPARK][1:])
