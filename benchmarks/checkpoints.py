"""Checkpoints of a shard, what they cost a training, and versions of changes on the disk.

A checkpoint is of a shard whose rows have 16 floats, while a thread changes rows as pushes do. Versions of changes are of
`xftrl`, one row of a hundred changed by each, written and made whole by the functions of a training that stays.
"""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import Figure, Run, ratio
from benchmarks.process import TRAIN, Xpsql, cpu, figures_of, in_turns, num_cores, seconds

if TYPE_CHECKING:
    from xpsql.platform.ps.compiled.table_programs import Programs
    from xpsql.platform.ps.messages import Keys
    from xpsql.platform.ps.shard import Shard
    from xpsql.warehouse.models import Models
    from xpsql.warehouse.version import Version

TARGETS = {
    "checkpoint, full: training stands still": "<= 50",
    "checkpoint, full: the longest wait of a push": "<= 50",
    "checkpoint, full: written, a CPU second": ">= 300",
    "checkpoint, full: memory beyond the shard's": "<= 25",
    "checkpoint, full: restored": "<= 10",
    "a training of a minute, checkpoints every 10 s: times one without": "<= 1.05",
    "versions of changes: learning stood still at most": "<= 20",
    "versions of changes: all on the disk, times one whole": "<= 15",
    "versions of changes: CPU to load the newest, times a whole one": "<= 1.3",
    "versions of changes: CPU to load the one of most files, times a whole one": "<= 4",
}
PUSHED, PIECE, PASSES, SHARE = 1 << 14, 1 << 18, 60, 100


def figures(run: Run) -> Iterator[Figure]:
    rows = run.size(40_000, 10_000_000)
    yield from figures_of(checkpoint, run.folder / "checkpoints", rows)
    if num_cores() > 1:
        yield from trainings(run)
    yield from figures_of(changes, run.folder / "deltas", rows, run.size(10, 500))


def trainings(run: Run) -> Iterator[Figure]:
    """Yield what checkpoints cost a training of about a minute."""
    data, xpsql, passes, work = run.log / "train.parquet", Xpsql(run.folder), run.size(1, PASSES), {}
    for every in (0, 10):
        settings = f"WITH (workers = 2, passes = {passes}, checkpoint_seconds = {every})"
        work[str(every)] = partial(xpsql.run, TRAIN.format(using="xftrl", settings=settings, data=data))
    without, with_ = in_turns(run.rounds, work, ["0"]).values()
    yield ratio("a training of a minute, checkpoints every 10 s: times one without", seconds(with_), seconds(without))
    yield ratio("a training of a minute, checkpoints every 10 s: CPU, times one without", cpu(with_), cpu(without))


def programs_of(name: str, dim: int) -> Programs:
    """Return the programs of a table of one optimizer."""
    from xpsql.platform.operators import OPERATORS
    from xpsql.platform.operators.base import TableSpec
    from xpsql.platform.operators.chains import chain
    from xpsql.platform.ps.compiled.table_programs import Programs

    spec, part = TableSpec("weights", dim), next(part for part in OPERATORS if part.name == name)
    return Programs(spec, chain(part.make(part.options(), spec)), 7)


def new_shard(programs: Programs) -> Shard:
    from xpsql.platform.ps._native import Store
    from xpsql.platform.ps.dense import DenseProgram
    from xpsql.platform.ps.lifecycle_table import tables_of
    from xpsql.platform.ps.moments import no_moments
    from xpsql.platform.ps.shard import Shard
    from xpsql.platform.ps.watermarks import Watermarks

    shard = Shard(tables_of([programs], Store), DenseProgram((), None, 7).part(0, 1), str)
    shard.watermarks, shard.moments = Watermarks.fresh(range(1024), (), 0), no_moments(0)
    return shard


def change(shard: Shard, keys: Keys, random: np.random.Generator) -> None:
    """Change rows as pushes do: their floats, and what is counted."""
    store = shard.first.store
    layout = [(name, place, width) for place, (name, _, width, _) in enumerate(store.layout)]
    floats = [(place, width) for name, place, width in layout if name.startswith("weights.")]
    counted = [place for name, place, _ in layout if name in ("count", "updates", "shows")]
    for start in range(0, len(keys), PIECE):
        rows, _ = store.insert(keys[start : start + PIECE])
        values = [random.exponential(size=(len(rows), width)).astype(np.float32) for _, width in floats]
        counts = [random.geometric(0.3, len(rows)).astype(np.uint32)] * len(counted)
        store.update(rows, [place for place, _ in floats], values, counted, counts, [], [])


@contextmanager
def changing(shard: Shard, keys: Keys) -> Iterator[list[float]]:
    """Change rows in a thread, at random and under the shard's lock, as pushes do; yield how long each waited."""
    random, store, ended, waited = np.random.default_rng(3), shard.first.store, threading.Event(), [0.0]
    values = np.full((PUSHED, 16), 0.5, np.float32)

    def push() -> None:
        while not ended.wait(0.02):
            some, start = keys[random.integers(0, len(keys), PUSHED)], time.perf_counter()
            with shard._lock:
                shard._wait_for_room()
                waited.append(time.perf_counter() - start)
                store.scatter(store.lookup(some), [len(store.layout) - 1], [values])

    thread = threading.Thread(target=push)
    thread.start()
    try:
        yield waited
    finally:
        ended.set()
        thread.join()


def high_water() -> int:
    """Return the most memory that this process has held since the last call, in bytes; Linux tells it."""
    kilobytes = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]
    Path("/proc/self/clear_refs").write_text("5")
    return int(kilobytes) << 10


def checkpoint(folder: str, rows: int) -> Iterator[Figure]:
    """Yield the pause, the writing, the memory, the way back, and what a push costs more whose rows are marked."""
    from xpsql.platform.training.checkpoints.files import restore, write
    from xpsql.warehouse.storage import Storage
    from xpsql.warehouse.trainings.checkpoints import Checkpoint, Checkpoints

    programs, place, random = programs_of("sgd", 16), Storage(folder), np.random.default_rng(2)
    shard, keys = new_shard(programs), np.random.default_rng(1).integers(0, 2**64, rows, np.uint64)
    change(shard, keys, random)
    payload, memory, parts = rows * shard.first.store.row_bytes, shard.memory_bytes, []
    for number, what in ((1, "full"), (2, "incremental")):
        with changing(shard, keys) as waited:
            start = time.perf_counter()
            snapshot = shard.snapshot(number == 1)
            yield Figure(f"checkpoint, {what}: training stands still", (time.perf_counter() - start) * 1e3, "ms")
            high_water()
            before, start = high_water(), time.thread_time()
            with snapshot:
                parts.append(write(place, f"000000-{number:06}", 0, 1, snapshot))
            spent, extra = time.thread_time() - start, high_water() - before
        yield Figure(f"checkpoint, {what}: rows written", parts[-1].tables[0].rows / rows * 100, "%")
        if number == 1:
            yield Figure("checkpoint, full: written, a CPU second", payload / spent / 1e6, "MB")
            yield Figure("checkpoint, full: memory beyond the shard's", extra / memory * 100, "%")
            yield Figure("checkpoint, full: the longest wait of a push", max(waited) * 1e3, "ms")
    whole = Checkpoint(0, 1, (), (parts[0],))
    with place.written(f"{whole.name}/driver.state"):
        pass
    Checkpoints(place).commit(whole)
    again, start = new_shard(programs), time.perf_counter()
    restore({0: again}, 1, Checkpoints(place), whole, epoch=1)
    yield Figure("checkpoint, full: restored", time.perf_counter() - start, "s")
    assert len(again) == rows


def published(shard: Shard, programs: Programs, models: Models, base: Version | None) -> tuple[Version, float]:
    """Write and commit a version as a resident training does; return it, and how long nothing could be pushed."""
    from xpsql.platform.ps.snapshot import VERSIONS
    from xpsql.platform.training.row_files.rows import save
    from xpsql.warehouse.entries import TableEntry
    from xpsql.warehouse.manifest import DELTA, Manifest

    entries = (TableEntry("weights", 1, programs.read_dims),)
    start = time.perf_counter()
    snapshot = shard.snapshot(base is None, VERSIONS)
    stood, own = time.perf_counter() - start, new_shard(programs)
    with snapshot:
        for records in snapshot.records("weights"):
            own.first.store.put(records)
    draft = models.begin("m", Manifest(tables=entries, parent=None if base is None else base.number), under=None)
    gone = None if base is None else {0: {"weights": snapshot.state.tables["weights"].gone}}
    save({0: own}, 1, draft, entries, gone)
    of: dict[str, Any] = {} if base is None else {"base": base.number, "requires": (DELTA,)}
    draft.commit(dataclasses.replace(draft.manifest, **of).having_learned(rows=len(shard)))
    return models.version("m", draft.number), stood


def changes(folder: str, rows: int, count: int) -> Iterator[Figure]:
    """Yield what versions of changes take on the disk, and to read, and how long learning stands still for one."""
    from xpsql.platform.scoring.weights import Weights
    from xpsql.platform.training.resident.compaction import Compactor
    from xpsql.warehouse.chains.compaction import rows_after
    from xpsql.warehouse.models import Models

    def on_disk() -> int:
        return sum(path.stat().st_blocks * 512 for path in Path(folder).rglob("*"))

    def loaded(version: Version) -> float:
        spent = []
        for _ in range(3):
            start = time.process_time()
            Weights(version, 0, 1)
            spent.append(time.process_time() - start)
        return min(spent)

    (made := Path(folder) / "made").mkdir(parents=True)
    random, models, programs = np.random.default_rng(5), Models(Path(folder)), programs_of("ftrl", 1)
    shard, keys = new_shard(programs), random.integers(0, 2**64, rows, np.uint64)
    change(shard, keys, random)
    version, stood = published(shard, programs, models, None)
    whole, alone, stands = on_disk(), loaded(version), []
    with Compactor(models, "m", made) as compactor:
        for _ in range(count):
            change(shard, keys[random.integers(0, rows, rows // SHARE)], random)
            version, stood = published(shard, programs, models, version)
            stands.append(stood * 1e3)
            compactor.look(version)
            if compactor.making is not None:  # each is done before the next version, as in a training it mostly is
                wait([compactor.making])
    most, what = max(models.present("m"), key=lambda one: rows_after(one.chain())), "versions of changes"
    yield Figure(f"{what}: how many", count, "versions")
    yield Figure(f"{what}: learning stood still at most", max(stands), "ms")
    yield Figure(f"{what}: all on the disk, times one whole", on_disk() / whole, "x")
    yield Figure(f"{what}: CPU to load a whole one", alone, "s")
    yield Figure(f"{what}: CPU to load the newest, times a whole one", loaded(version) / alone, "x")
    yield Figure(f"{what}: CPU to load the one of most files, times a whole one", loaded(most) / alone, "x")
