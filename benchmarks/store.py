"""Measure the native store: nanoseconds per key on one core, and bytes per row.

Lookup is Store.pull: keys to rows to a matrix of weights. Update is what a push does around its mathematics: pull, add a
gradient in NumPy, scatter. Keys are drawn uniformly or by a Zipf law, repeats included. Where there is a compiler of C++,
the same keys are looked up and updated in the hash maps of peers/maps.cpp: std::unordered_map, and boost's and ankerl's where
their headers are.

    python -m benchmarks.store --rows 10000000
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpsql.platform.ps._native import Arguments, Layout, Store

Keys = NDArray[np.uint64]


def zipf(rows: int, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return ranks in [0, rows) with density 1 / (rank + 1), by inversion of its integral."""
    ranks = np.exp(generator.random(size) * np.log(rows + 1)).astype(np.int64) - 1
    return np.minimum(ranks, np.int64(rows - 1))


def uniform(rows: int, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return ranks in [0, rows), all as likely."""
    return generator.integers(0, rows, size)


DRAWS = {"uniform": uniform, "zipf": zipf}


def batches(keys: Keys, draw: str, size: int, count: int) -> list[Keys]:
    """Draw batches of keys; which key is popular is independent of when it was inserted."""
    generator = np.random.default_rng(2)
    order = generator.permutation(len(keys))
    return [keys[order[DRAWS[draw](len(keys), size, generator)]] for _ in range(count)]


def nanoseconds(step: Callable[[Keys], object], work: list[Keys], rounds: int) -> float:
    """Return the median over rounds of the time per key."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for keys in work:
            step(keys)
        times.append((time.perf_counter() - start) / sum(len(keys) for keys in work))
    return statistics.median(times) * 1e9


def measure(dim: int, rows: int, batch: int, rounds: int) -> Iterator[tuple[str, float, str]]:
    """Yield (what, figure, unit) for a store of one float32 column."""
    keys = np.random.default_rng(1).integers(0, 2**64, rows, dtype=np.uint64)
    store = Store([("w", "float32", dim)])
    parts = np.array_split(keys, max(1, rows // batch))
    yield f"insert {dim}", nanoseconds(store.insert, parts, 1), "ns/key"
    yield f"memory {dim}", store.memory_bytes / len(store), "bytes/row"
    yield f"overhead {dim}", store.overhead_bytes / len(store), "bytes/row"
    arguments = Arguments(Layout([], [], [("w", "float32", (dim,))]), batch)
    weights = arguments["w"]
    gradients = np.full((batch, dim), 1e-3, np.float32)

    def pull(some: Keys) -> NDArray[np.uint32]:
        return store.pull(some, arguments)

    def update(some: Keys) -> None:
        found = pull(some)
        np.add(weights, gradients, out=weights)
        store.scatter(found, [0], [weights])

    for draw in DRAWS:
        work = batches(keys, draw, batch, 20)
        yield f"lookup {dim} {draw}", nanoseconds(pull, work, rounds), "ns/key"
        yield f"update {dim} {draw}", nanoseconds(update, work, rounds), "ns/key"


def peers(dim: int, rows: int, batch: int, rounds: int, folder: Path) -> Iterator[str]:
    """Yield the lines of the hash maps of other libraries, for the same keys; none without a compiler."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        return
    program, source = folder / "maps", Path(__file__).parent / "peers" / "maps.cpp"
    subprocess.run([compiler, "-O3", "-march=native", "-std=c++17", source, "-o", program], check=True)
    keys = np.random.default_rng(1).integers(0, 2**64, rows, dtype=np.uint64)
    keys.tofile(folder / "keys")
    given = []
    for draw in DRAWS:
        np.concatenate([np.array([batch], np.uint64), *batches(keys, draw, batch, 20)]).tofile(folder / draw)
        given.append(f"{draw}={folder / draw}")
    command = [program, str(dim), str(rounds), folder / "keys", *given]
    yield from subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main() -> None:
    """Pin the process to one core and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dims", type=int, nargs="+", default=[4, 16])
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for dim in arguments.dims:
        for what, figure, unit in measure(dim, arguments.rows, arguments.batch, arguments.rounds):
            print(f"{what:<20} {figure:8.1f} {unit}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for line in peers(dim, arguments.rows, arguments.batch, arguments.rounds, Path(folder)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
