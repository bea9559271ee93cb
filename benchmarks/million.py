"""A million made items: the exact top 100 of users by vectors, and a tree's beam, on one core; CPU seconds of this process.

    python -m benchmarks.million [ITEMS]

The vectors are drawn at random. The tree has all items, by ITEMS, and its network has learned from 20,000 rows: how many nodes
a user costs, and how long, depends on the beam and the depth, not on what was learned. What a user costs is measured one by
one, after the first.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from xpsql import connect
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring.beam import Beam
from xpsql.platform.scoring.best import ExcludedItems, best
from xpsql.platform.scoring.by_algorithm import AlgorithmScorer
from xpsql.platform.scoring.weights import Weights
from xpsql.platform.training.recipe import algorithm_of

USERS, ELEMENTS, K, ASKED, BEAM = 1000, 64, 100, 200, 60
NONE = ExcludedItems.of(np.empty(0, np.int64), np.empty(0, np.int64))


def vectors(random: np.random.Generator, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    found = random.normal(size=(count, ELEMENTS)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def by_products(count: int) -> str:
    """Rank all items for users, and return the line of the table."""
    random = np.random.default_rng(0)
    items, users = vectors(random, count), vectors(random, USERS)
    start = time.process_time()
    for first in range(0, USERS, 250):
        asked = users[first : first + 250]
        best(lambda low, high, asked=asked: asked @ items[low:high].T, len(asked), count, K, NONE)  # type: ignore[misc]
    return f"| top {K} of {USERS:,} users, {ELEMENTS} elements: CPU seconds | {time.process_time() - start:.2f} |"


def by_beam(count: int, folder: Path) -> Iterator[str]:
    """Rank by a tree, and yield the lines of the table."""
    catalogue = f"SELECT id AS item, id DIV 1000 AS category FROM range({count})"
    rows = f"SELECT pmod(xxhash64(id), {count}) AS item, array(pmod(xxhash64(id, 1), {count})) AS had FROM range(20000)"
    with connect(folder / "warehouse", reporter=SilentReporter()) as session:
        start = time.process_time()
        session.sql(
            f"TRAIN MODEL m USING tdm (item = (item, category), history = (had), dim = 24, beam = {BEAM}) ITEMS ({catalogue}) "
            f"WITH (share = (had AS item), workers = 1) AS {rows}"
        )
        yield f"| training of a tree, 20,000 rows: CPU seconds | {time.process_time() - start:.0f} |"
        version = session.models.version("m")
        items = pa.table({"item": np.arange(count), "category": np.arange(count) // 1000})
        start = time.process_time()
        beam = Beam(version, AlgorithmScorer(version, Weights(version, 0, 1).pull, None), algorithm_of(version.manifest), items)
        yield f"| all nodes made ready: CPU seconds | {time.process_time() - start:.1f} |"
        random, taken = np.random.default_rng(1), []
        for _ in range(ASKED):
            had = pa.table({"had": pa.array([random.integers(0, count, 20).tolist()])})
            start = time.process_time()
            beam.best(had, K, NONE)
            taken.append(time.process_time() - start)
        low, high = (1000 * float(np.quantile(taken[1:], at)) for at in (0.5, 0.99))
        yield f"| nodes scored for a user, beam {BEAM}, {K} items asked for | {beam.scored:,} of {count:,} |"
        yield f"| a user: milliseconds of CPU, p50 and p99 | {low:.1f}, {high:.1f} |"


def lines(count: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield by_products(count)
    with tempfile.TemporaryDirectory() as name:
        yield from by_beam(count, Path(name))


if __name__ == "__main__":
    if "OPENBLAS_NUM_THREADS" not in os.environ:  # NumPy's product has as many threads as it saw cores when it was loaded
        os.execve(
            sys.executable,
            [sys.executable, "-m", "benchmarks.million", *sys.argv[1:]],
            {**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for text in lines(int(sys.argv[1]) if sys.argv[1:] else 1_000_000):
        print(text, flush=True)
