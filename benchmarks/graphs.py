"""Vertex programs over ten million edges of a random graph with hubs (R-MAT), from Parquet, each as a whole process: seconds,
CPU seconds and memory; and walks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import Figure, Run, spread
from benchmarks.process import Xpsql, child, cpu, seconds

EDGES, SCALE, SEED = 10_000_000, 20, 1
CHANCES = 0.57, 0.76, 0.95
"""Of the quarters of the matrix that an edge is in, added up; Chakrabarti, Zhan and Faloutsos, "R-MAT", SDM 2004."""
USING = {
    "pagerank, 20 rounds": "pagerank (rounds = 20, tolerance = 0)",
    "components": "components",
    "kcore": "kcore",
    "labels, 10 rounds": "labels",
}
TRAIN = "TRAIN OR REPLACE MODEL m USING {using} SOURCE src TARGET dst AS SELECT src, dst FROM parquet.`{data}`"
WALKS = (
    "SELECT count(*) AS walks, sum(size(walk)) AS steps FROM ML.WALKS((SELECT src, dst FROM parquet.`{data}`), SOURCE src, "
    "TARGET dst, WITH (length = 40, per_node = {walks}, p = 0.5, q = 2))"
)
TARGETS = {
    "pagerank, 20 rounds: seconds": "<= 12",
    "components: seconds": "<= 6",
    "kcore: seconds": "<= 30",
    "labels, 10 rounds: seconds": "<= 20",
}


def figures(run: Run) -> Iterator[Figure]:
    data, xpsql = run.folder / "edges.parquet", Xpsql(run.folder)
    child(write, data, run.size(20_000, EDGES), run.size(12, SCALE))
    for name, using in USING.items():
        runs = [xpsql.run(TRAIN.format(using=using, data=data)) for _ in range(run.rounds)]
        yield spread(f"{name}: seconds", seconds(runs), "s")
        yield spread(f"{name}: CPU seconds", cpu(runs), "s")
        yield Figure(f"{name}: memory", max(one.peak_bytes for one in runs) / 1e6, "MB")
    runs = [xpsql.run(WALKS.format(data=data, walks=run.size(1, 2))) for _ in range(run.rounds)]
    yield spread("walks of node2vec: seconds", seconds(runs), "s")


def write(path: str, edges: int, scale: int) -> Iterator[None]:
    """Write the edges of a graph of 2^scale vertices at most."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(SEED)
    source, target = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        quarter = np.searchsorted(CHANCES, random.random(edges), side="right")
        source, target = 2 * source + quarter // 2, 2 * target + quarter % 2
    named = random.permutation(1 << scale)
    pq.write_table(pa.table({"src": named[source], "dst": named[target]}), Path(path), row_group_size=1_000_000)
    yield from ()
