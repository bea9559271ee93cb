"""owlqn and MLlib's logistic regression, ten iterations each on one core: examples times iterations, a second.

    python -m benchmarks.solver LOG FOLDER ROUNDS

LOG is train.parquet. MLlib's features are hashed to 2^20 and cached before the clock of its fit runs; beside it stand our
iterations once examples are encoded, and the whole statement, which reads, encodes, measures and writes too. Prints a line for
each figure: value, unit, name.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

import xpsql
from xpsql.platform.progress import SilentReporter

ITERATIONS = 10
SETTINGS = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "4g"}
OURS = f"owlqn (iterations = {ITERATIONS}, tolerance = 0)"
TRAIN = f"TRAIN OR REPLACE MODEL m USING {OURS} IGNORE (ts) AS SELECT * FROM parquet.`{{}}`"


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ours(log: Path, folder: Path, rounds: int) -> tuple[float, float]:
    """Return the seconds of a training statement, and of its iterations."""
    with xpsql.connect(folder / "warehouse", "duckdb", SilentReporter()) as session:
        statement = TRAIN.format(log)
        session.sql(statement)  # not counted: compiles
        found = [(seconds(lambda: session.sql(statement)), iterating(session)) for _ in range(rounds)]
    whole, iterations = (statistics.median(one) for one in zip(*found, strict=True))
    return whole, iterations


def iterating(session: xpsql.Session) -> float:
    """Return the seconds that the iterations of the last training took, by those after the first, which ends encoding."""
    times = session.sql("SELECT time FROM ML.TRAINING_INFO(MODEL m) WHERE objective IS NOT NULL ORDER BY time").arrow()["time"]
    first, last = times[0].as_py(), times[-1].as_py()
    return float((last - first).total_seconds()) * ITERATIONS / (ITERATIONS - 1)


def mllib(log: Path, rounds: int) -> float:
    """Return the seconds of MLlib's fit on cached features."""
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import FeatureHasher
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        frame = spark.read.parquet(str(log)).drop("ts")
        slots = [name for name in frame.columns if name != "label"]
        hasher = FeatureHasher(inputCols=slots, categoricalCols=slots, outputCol="features", numFeatures=1 << 20)
        rows = hasher.transform(frame.na.fill("null")).select("label", "features").cache()
        rows.count()
        fit = LogisticRegression(maxIter=ITERATIONS, tol=0.0, regParam=1e-5)
        return statistics.median(seconds(lambda: fit.fit(rows)) for _ in range(rounds))
    finally:
        spark.stop()


def main(log: str, folder: str, rounds: str) -> None:
    """Print the figures."""
    passes = ITERATIONS * pq.read_metadata(log).num_rows
    whole, iterations = ours(Path(log), Path(folder), int(rounds))
    print(f"{passes / iterations:.0f} examples/s owlqn, iterations", flush=True)
    print(f"{passes / whole:.0f} examples/s owlqn, statement", flush=True)
    there = mllib(Path(log), int(rounds))
    print(f"{passes / there:.0f} examples/s MLlib's logistic regression, fit", flush=True)
    print(f"{there / iterations:.3f} x owlqn's iterations, times MLlib's fit", flush=True)
    print(f"{there / whole:.3f} - owlqn's statement, times MLlib's fit", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
