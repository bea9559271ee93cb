"""Predictions on one core: ML.PREDICT, one row in a process that has the model, and the command itself."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow.parquet as pq

from benchmarks import Figure, Run, spread
from benchmarks.process import TRAIN, Xpsql, child, connect, cores, figures_of, measure, num_rows, seconds
from benchmarks.training import staged

TARGETS = {
    "ML.PREDICT: model loaded": ">= 250000",
    "Scorer.predict, xftrl: one row of 39 columns": "<= 500",
    "Scorer.predict, xnn: one row of 39 columns": "<= 2000",
    'xpsql sql "SELECT 1"': "<= 0.5",
}
PREDICT = "SELECT avg(predicted_label) AS mean FROM ML.PREDICT(MODEL ctr, (SELECT * FROM parquet.`{}`))"
SIZES = {"one row": 1, "100 rows": 100}
CALLS, TRAINED = 500, 20_000


def figures(run: Run) -> Iterator[Figure]:
    data, xpsql = run.log / "train.parquet", Xpsql(run.folder)
    with cores(1):
        xpsql.run(TRAIN.format(using="xftrl", settings="", data=data))
        found = [child(staged, PREDICT.format(data), xpsql.warehouse, time.monotonic())[0][0] for _ in range(run.rounds)]
        speeds = [num_rows(data) / (one["work, with writing"] + one["the rest"]) for one in found]
        yield spread("ML.PREDICT: model loaded", speeds, "rows/s")
        yield spread("ML.PREDICT: imports, engine, loading the model", [one["start-up"] for one in found], "s")
        for algorithm in ("xftrl", "xnn"):
            yield from figures_of(kept, data, run.folder / "rows", algorithm, run.size(20, CALLS))
        alone = [measure([*xpsql.command("SELECT 1")]) for _ in range(run.rounds + 1)][1:]
        yield spread('xpsql sql "SELECT 1"', seconds(alone), "s")


def kept(data: str, warehouse: str, algorithm: str, calls: int) -> Iterator[Figure]:
    """Yield the time of scoring one row and a hundred in a process that keeps the model: medians of calls after the first."""
    from xpsql.platform.scoring.scorer_cache import scorer_of
    from xpsql.platform.scoring.weights import Weights

    with connect(warehouse) as session:
        session.sql(TRAIN.format(using=algorithm, settings="", data=data) + f" LIMIT {TRAINED}")
        version = session.models.version("ctr", None)
    scorer = scorer_of(version, Weights(version, 0, 1).pull)
    names = [name for name in pq.read_schema(data).names if name not in ("label", "ts")]
    table = pq.read_table(data, columns=names)
    for name, size in SIZES.items():
        pieces = [table.slice(start, size) for start in range(0, min(calls * size, table.num_rows - size + 1), size)]
        scorer.predict(pieces[0])
        spent = []
        for piece in pieces:
            begin = time.perf_counter()
            scorer.predict(piece)
            spent.append((time.perf_counter() - begin) * 1e6)
        yield Figure(f"Scorer.predict, {algorithm}: {name} of {len(names)} columns", sorted(spent)[len(spent) // 2], "us")
