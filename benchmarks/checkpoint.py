"""What checkpoints cost, of one shard with rows of 16 floats: the pause, the writing, the memory, and the way back.

    python -m benchmarks.checkpoint FOLDER [--rows N]

Printed, a line each: value, unit, name. A thread changes rows all the while, as pushes do. Writing and pushes are judged by CPU
seconds of their thread, the others by the clock.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xpsql.platform.operators.base import TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.sgd import SgdOptions, sgd
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import BatchId, Keys, Push, Touched
from xpsql.platform.ps.moments import no_moments
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.snapshot import Snapshot
from xpsql.platform.ps.watermarks import Watermarks
from xpsql.platform.training.checkpoints.files import restore, write
from xpsql.warehouse.storage import Storage
from xpsql.warehouse.trainings.checkpoints import Checkpoint, CheckpointPart, Checkpoints

DIM = 16
PIECE = 1 << 16
PUSHED = 1 << 14
PAIRS = 200
SPEC = TableSpec("weights", DIM)
PROGRAMS = Programs(SPEC, chain(sgd(SgdOptions(), SPEC)), seed=7)
DENSE = DenseProgram((), None, 7)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BOOKKEEPING = "a push of 16,384 rows: more CPU time where batches are known and changes marked"
Line = tuple[float, str, str]


def new() -> Shard:
    shard = Shard(tables_of([PROGRAMS], Store), DENSE.part(0, 1), str)
    shard.watermarks, shard.moments = Watermarks.fresh(range(1024), (), 0), no_moments(0)
    return shard


def filled(rows: int) -> tuple[Shard, Keys]:
    """Return a shard of so many rows, and their keys."""
    shard, keys = new(), np.random.default_rng(1).integers(0, 2**64, rows, np.uint64)
    weights = np.random.default_rng(2).normal(size=(PIECE, DIM)).astype(np.float32)
    column = len(shard.first.store.layout) - 1
    for start in range(0, rows, PIECE):
        some = keys[start : start + PIECE]
        found, _ = shard.first.store.insert(some)
        shard.first.store.scatter(found, [column], [weights[: len(some)]])
    return shard, keys


class Changing:
    """Changes rows in a thread, at random and under the shard's lock, as pushes do, until the block ends."""

    def __init__(self, shard: Shard, keys: Keys) -> None:
        self._shard = shard
        self._keys = keys
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.longest = 0.0

    def __enter__(self) -> Changing:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        random, store = np.random.default_rng(3), self._shard.first.store
        column, values = len(store.layout) - 1, np.full((PUSHED, DIM), 0.5, np.float32)
        while not self._ended.wait(0.02):
            some = self._keys[random.integers(0, len(self._keys), PUSHED)]
            start = time.perf_counter()
            with self._shard._lock:
                self._shard._wait_for_room()
                self.longest = max(self.longest, time.perf_counter() - start)
                store.scatter(store.lookup(some), [column], [values])


def bookkeeping(rows: int) -> float:
    """Return how many CPU seconds longer a push takes that is known by its batch and marks the rows it changes: medians."""
    shards = filled(rows)[0], filled(rows)[0]
    shards[0].watermarks = None
    with shards[1].snapshot(True) as snapshot:  # from the first one on, changes are marked
        list(snapshot.records("weights"))
    keys, random = filled(rows)[1], np.random.default_rng(5)
    seconds: tuple[list[float], list[float]] = ([], [])
    for batch in range(PAIRS):
        some = np.unique(keys[random.integers(0, rows, PUSHED)])
        push = push_of(some, batch)
        pairs = list(zip(shards, seconds, strict=True))
        for shard, spent in pairs if batch % 2 else reversed(pairs):
            start = time.thread_time()
            shard.push(push)
            spent.append(time.thread_time() - start)
    without, with_ = (statistics.median(spent[PAIRS // 10 :]) for spent in seconds)
    return with_ - without


def push_of(keys: Keys, batch: int) -> Push:
    ones = np.ones(len(keys), np.uint32)
    touched = Touched(keys, ones.astype(np.uint16), ones, ones, 0, BatchId(0, 0, 0, batch), 1024, 100)
    return Push(touched, {"weights": ones * 0}, {"weights": np.ones((PUSHED, DIM), np.float32)})


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def written(snapshot: Snapshot, place: Storage, name: str) -> tuple[CheckpointPart, float, int]:
    """Write a snapshot; return its part, the CPU seconds of the thread, and the bytes of memory it took at most."""
    peak, ended, before = [0], threading.Event(), resident()

    def watch() -> None:
        while not ended.wait(0.005):
            peak[0] = max(peak[0], resident() - before)

    watching = threading.Thread(target=watch)
    watching.start()
    start = time.thread_time()
    part = write(place, name, 0, 1, snapshot)
    seconds = time.thread_time() - start
    ended.set()
    watching.join()
    return part, seconds, peak[0]


def measured(folder: Path, rows: int) -> Iterator[Line]:
    """Yield the figures."""
    shard, keys = filled(rows)
    place, payload = Storage(str(folder)), rows * shard.first.store.row_bytes
    memory = shard.memory_bytes
    parts = []
    for number, what in ((1, "full"), (2, "incremental")):
        with Changing(shard, keys) as changing:
            start = time.perf_counter()
            snapshot = shard.snapshot(number == 1)
            yield (time.perf_counter() - start) * 1e3, "ms", f"{what}: the moment that training stands still"
            with snapshot:
                part, seconds, extra = written(snapshot, place, f"000000-{number:06}")
        parts.append(part)
        if number == 1:
            yield payload / seconds / 1e6, "MB/s", "full: rows written per CPU second"
            yield extra / memory * 100, "%", "full: memory beyond the shard's at its peak"
            yield changing.longest * 1e3, "ms", "full: the longest wait of a push"
        yield part.tables[0].rows / rows * 100, "%", f"{what}: rows written"
    checkpoint = Checkpoint(0, 1, (), (parts[0],))
    with place.written(f"{checkpoint.name}/driver.state"):
        pass
    Checkpoints(place).commit(checkpoint)
    again = new()
    start = time.perf_counter()
    restore({0: again}, 1, Checkpoints(place), checkpoint, epoch=1)
    yield time.perf_counter() - start, "s", "restore"
    assert len(again) == rows
    yield bookkeeping(max(rows // 10, PUSHED)) * 1e6, "us", BOOKKEEPING


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    try:
        for value, unit, name in measured(arguments.folder, arguments.rows):
            print(f"{value:.3f} {unit} {name}", flush=True)
    finally:
        shutil.rmtree(arguments.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
