"""Versions of changes: what a thousand of them take on the disk, how they are read, and how long learning stands still for one.

    python -m benchmarks.deltas [--rows 10000000] [--versions 1000] [--folder FOLDER]

Printed, a line each: value, unit, name. Of xftrl's rows, 1 % change between two versions, at random. What
is done with them is what a resident training does at a publication and in the background, by the same functions; nothing is
learned.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import numpy as np

from xpsql.platform.operators.base import TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import Keys
from xpsql.platform.ps.moments import no_moments
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.snapshot import VERSIONS
from xpsql.platform.ps.watermarks import Watermarks
from xpsql.platform.scoring.weights import Weights
from xpsql.platform.training.resident.compaction import Compactor
from xpsql.platform.training.row_files.rows import save
from xpsql.warehouse.chains.compaction import rows_after
from xpsql.warehouse.manifest import DELTA, Manifest, TableEntry
from xpsql.warehouse.models import Models
from xpsql.warehouse.version import Version

SPEC = TableSpec("weights", 1)
PROGRAMS = Programs(SPEC, chain(ftrl(FtrlOptions(), SPEC)), seed=7)
ENTRIES = (TableEntry("weights", 1, PROGRAMS.read_dims),)
DENSE = DenseProgram((), None, 7)
PIECE = 1 << 18
SHARE = 100
MODEL = "m"
RANDOM = np.random.default_rng(5)


def new() -> Shard:
    shard = Shard(tables_of([PROGRAMS], Store), DENSE.part(0, 1), str)
    shard.watermarks, shard.moments = Watermarks.fresh(range(1024), (), 0), no_moments(0)
    return shard


def change(shard: Shard, keys: Keys) -> None:
    """Change rows as a push does: their floats, and what is counted."""
    store = shard.first.store
    layout = [(name, number) for number, (name, *_) in enumerate(store.layout)]
    floats = [number for name, number in layout if name.startswith("weights.")]
    counted = [number for name, number in layout if name in ("count", "updates", "shows")]
    for start in range(0, len(keys), PIECE):
        rows, _ = store.insert(keys[start : start + PIECE])
        values = [RANDOM.exponential(size=(len(rows), 1)).astype(np.float32) for _ in floats]
        store.update(rows, floats, values, counted, [RANDOM.geometric(0.3, len(rows)).astype(np.uint32)] * len(counted), [], [])


def published(shard: Shard, models: Models, base: Version | None) -> tuple[Version, float]:
    """Write and commit a version as Publisher does; return it, and how long nothing could be pushed."""
    start = time.perf_counter()
    snapshot = shard.snapshot(base is None, VERSIONS)
    stood = time.perf_counter() - start
    own = new()
    with snapshot:
        for records in snapshot.records("weights"):
            own.first.store.put(records)
    begun = Manifest(tables=ENTRIES, parent=None if base is None else base.number)
    draft = models.begin(MODEL, begun, under=None)
    gone = None if base is None else {0: {"weights": snapshot.state.tables["weights"].gone}}
    save({0: own}, 1, draft, ENTRIES, gone)
    of = {} if base is None else {"base": base.number, "requires": (DELTA,)}
    draft.commit(dataclasses.replace(draft.manifest, rows=len(shard), **of))
    return models.version(MODEL, draft.number), stood


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


def read(version: Version) -> tuple[float, int]:
    """Return the CPU seconds that loading a version for predictions takes, the best of three, and the bytes that are read."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        Weights(version, 0, 1)
        seconds.append(time.process_time() - start)
    return min(seconds), sum(file.size for link in version.chain() for file in link.parts("rows/weights"))


def lines(folder: Path, rows: int, num_versions: int) -> Iterator[tuple[float, str, str]]:
    models = Models(folder)
    (folder / "made").mkdir(parents=True)
    shard, keys = new(), RANDOM.integers(0, 2**64, rows, np.uint64)
    change(shard, keys)
    version, stood = published(shard, models, None)
    whole = on_disk(folder)
    seconds, size = read(version)
    stands, peak = [], 0
    with Compactor(models, MODEL, folder / "made") as compactor:
        for _ in range(num_versions):
            change(shard, keys[RANDOM.integers(0, rows, rows // SHARE)])
            version, stood = published(shard, models, version)
            stands.append(stood)
            compactor.look(version)
            if compactor.making is not None:  # each is done before the next version, as in a training it mostly is
                wait([compactor.making])
            peak = max(peak, on_disk(folder)) if version.number % 50 == 0 else peak
    yield whole / 2**20, "MiB", f"a version of {rows:,} rows, whole"
    yield 1000 * max(stands), "ms", "the longest that learning stood still"
    yield 1000 * stood, "ms", "learning stood still for the last"
    yield num_versions, "versions", "kept"
    yield on_disk(folder) / whole, "x", "all versions on the disk, in whole ones"
    yield peak / whole, "x", "all versions on the disk, at most"
    newest = read(version)
    yield len(version.chain()), "versions", "that the newest is read from"
    yield newest[1] / size, "x", "bytes of which the newest is read, in those of a whole one"
    yield newest[0] / seconds, "x", "CPU seconds to load the newest"
    longest = max(models.present(MODEL), key=lambda one: rows_after(one.chain()))
    other = read(longest)
    yield len(longest.chain()), "versions", "that the one of most is read from"
    yield other[1] / size, "x", "bytes of which it is read"
    yield other[0] / seconds, "x", "CPU seconds to load it"
    yield seconds, "s", "to load a whole one"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deltas")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--versions", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xpsql-deltas-", dir=given.folder) as name:
        for value, unit, what in lines(Path(name), given.rows, given.versions):
            print(f"{value:.4g}\t{unit}\t{what}", flush=True)


if __name__ == "__main__":
    main()
