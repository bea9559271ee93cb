"""The native table beside hash maps of other libraries on the same keys, and many ids in a row.

A lookup is Store.pull: keys to rows to a matrix of weights. An update is the work of a push around its mathematics. The maps of
maps.cpp are looked up and updated with the same keys where there is a compiler of C++; the fastest one is the target.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import Figure, Run, spread
from benchmarks.process import Xpsql, cores, cpu, figures_of, in_turns, num_cores, speed

SIZES = (1_000_000, 10_000_000, 48_000_000, 100_000_000)
TARGETS = {
    "4 floats: bytes a row beyond columns": "<= 16",
    "16 floats: bytes a row beyond columns": "<= 16",
    "xftrl, 100M rows: a new row, CPU": "<= 250",
    "xftrl, 100M rows: a key of a batch, zipf, times 1M": "<= 2",
    "xftrl, 100M rows: a key of a batch, uniform, times 1M": "<= 2",
}
Keys = NDArray[np.uint64]
SLOTS, VALUES = 20, 1_000_000
GROWTH_BATCH, GROWTH_BYTES = 24_000, 56
"""Keys of a batch of 4,096 rows of the made log; bytes of a row with its place in the index."""
COMMIT_BATCH, COMMIT_BYTES = 1_000_000, 100


def figures(run: Run) -> Iterator[Figure]:
    with cores(1):
        for dim in (4, 16):
            found = list(figures_of(table, dim, run.size(20_000, 10_000_000), run.size(2_000, 100_000), run.folder))
            fastest: dict[str, float] = {}
            for one in found:
                if one.peer:
                    what = one.what.removesuffix(f", {one.peer}")
                    fastest[what] = min(one.value, fastest.get(what, one.value))
            yield from (one._replace(target=f"<= {fastest[one.what]:.4g}") if one.what in fastest else one for one in found)
    with cores(1):
        yield from figures_of(growth, [run.size(size // 1000, size) for size in SIZES])
        yield from figures_of(committed, run.size(48_000, 48_000_000), run.folder)
    for ids in (100, 300)[: run.size(1, 2)]:
        yield from many_ids(run, ids)


def ranks(rows: int, size: int, zipf: bool, random: np.random.Generator) -> NDArray[np.int64]:
    """Return ranks in [0, rows), uniform, or with density 1 / (rank + 1) by inversion of its integral."""
    if not zipf:
        return random.integers(0, rows, size)
    return np.minimum(np.exp(random.random(size) * np.log(rows + 1)).astype(np.int64) - 1, np.int64(rows - 1))


def batches(keys: Keys, zipf: bool, size: int) -> list[Keys]:
    """Draw batches of keys; which key is popular is independent of when it was inserted."""
    random = np.random.default_rng(2)
    order = random.permutation(len(keys))
    return [keys[order[ranks(len(keys), size, zipf, random)]] for _ in range(20)]


def table(dim: int, rows: int, batch: int, folder: str) -> Iterator[Figure]:
    """Yield nanoseconds a key, bytes a row, and the same of other maps."""
    from xpsql.platform.ps._native import Arguments, Layout, Store

    keys, store = np.random.default_rng(1).integers(0, 2**64, rows, dtype=np.uint64), Store([("w", "float32", dim)])
    for some in np.array_split(keys, max(1, rows // batch)):
        store.insert(some)
    yield Figure(f"{dim} floats: bytes a row beyond columns", store.overhead_bytes / len(store), "bytes")
    arguments = Arguments(Layout([], [], [("w", "float32", (dim,))]), batch)
    weights, gradients = arguments["w"], np.full((batch, dim), 1e-3, np.float32)

    def update(some: Keys) -> None:
        found = store.pull(some, arguments)
        np.add(weights, gradients, out=weights)
        store.scatter(found, [0], [weights])

    steps: dict[str, Callable[[Keys], object]] = {"lookup": lambda some: store.pull(some, arguments), "update": update}
    for draw in ("uniform", "zipf"):
        work = batches(keys, draw == "zipf", batch)
        for name, step in steps.items():
            yield spread(f"{dim} floats: {name}, {draw}", [nanoseconds(step, work) for _ in range(5)], "ns")
    yield from maps(dim, keys, batch, Path(folder))


def growth(sizes: list[int]) -> Iterator[Figure]:
    """Yield what a new row of xftrl takes up to some sizes of a store, and a key of a batch at each; sizes beyond half of the
    memory that is free are left out."""
    from benchmarks.log import mixed
    from xpsql.platform.ps._native import Arguments, Layout, Store
    from xpsql.platform.ps.table import STATISTIC_COLUMNS

    store, size = Store([*STATISTIC_COLUMNS, ("z", "float32", 1), ("n", "float32", 1)]), min(GROWTH_BATCH, sizes[0])
    columns = [len(STATISTIC_COLUMNS), len(STATISTIC_COLUMNS) + 1]
    arguments = Arguments(Layout([], [], [("z", "float32", (1,)), ("n", "float32", (1,))]), size)
    first: dict[str, float] = {}
    for rows in sizes:
        if rows * GROWTH_BYTES > free_bytes() / 2 + store.memory_bytes:
            return
        before, began = len(store), time.process_time()
        for start in range(before, rows, size):
            store.insert(mixed(np.arange(start, min(start + size, rows), dtype=np.uint64), 3))
        spent = time.process_time() - began
        began = time.process_time()
        for start in range(before, rows, size):
            mixed(np.arange(start, min(start + size, rows), dtype=np.uint64), 3)
        made = spent - (time.process_time() - began)
        at = f"xftrl, {rows // 1_000_000 or rows}{'M' * (rows >= 1_000_000)} rows"
        yield Figure(f"{at}: a new row, CPU", made / (len(store) - before) * 1e9, "ns")
        for draw in ("zipf", "uniform"):
            random = np.random.default_rng(4)
            work = [mixed(np.unique(ranks(rows, size, draw == "zipf", random)).astype(np.uint64), 3) for _ in range(100)]
            began = time.process_time()
            for keys in work:
                found = store.pull(keys, arguments)
                store.scatter(found, columns, [arguments["z"][: len(keys)], arguments["n"][: len(keys)]])
            cost = (time.process_time() - began) / sum(map(len, work)) * 1e9
            yield Figure(f"{at}: a key of a batch, {draw}, CPU", cost, "ns")
            yield Figure(f"{at}: a key of a batch, {draw}, times 1M", cost / first.setdefault(draw, cost), "x")


def committed(rows: int, folder: str) -> Iterator[Figure]:
    """Yield what the commit of rows of a weight and its sum of squares takes, and its bytes, where memory reaches."""
    import xpsql.ps

    if rows * COMMIT_BYTES > free_bytes() / 2:
        return
    with xpsql.ps.local(Path(folder) / "rows", "rows", tables={"f": xpsql.ps.Table(1, init=0)}) as ps:
        for start in range(0, rows, COMMIT_BATCH):
            values = np.arange(start, min(start + COMMIT_BATCH, rows))
            ps["f"].push(values, np.full((len(values), 1), 0.1, np.float32))
        began, spent = time.perf_counter(), time.process_time()
        ps.commit("rows")
        taken, cpu_taken = time.perf_counter() - began, time.process_time() - spent
    written = sum(path.stat().st_size for path in (Path(folder) / "rows" / "models").rglob("*") if path.is_file())
    what = f"commit of {rows // 1_000_000 or rows}{'M' * (rows >= 1_000_000)} rows"
    yield Figure(what, taken, "s")
    yield Figure(f"{what}: CPU", cpu_taken, "s")
    yield Figure(f"{what}: bytes a row", written / rows, "bytes")


def free_bytes() -> int:
    """Return the memory that new processes may take, as Linux tells it; elsewhere all that the machine has."""
    told = Path("/proc/meminfo")
    if told.exists():
        (line,) = (line for line in told.read_text().splitlines() if line.startswith("MemAvailable:"))
        return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def nanoseconds(step: Callable[[Keys], object], work: list[Keys]) -> float:
    start = time.perf_counter()
    for keys in work:
        step(keys)
    return (time.perf_counter() - start) / sum(map(len, work)) * 1e9


def maps(dim: int, keys: Keys, batch: int, folder: Path) -> Iterator[Figure]:
    """Yield the figures of the maps of other libraries; none without a compiler."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        return
    program, given = folder / "maps", []
    source = Path(__file__).with_name("maps.cpp")
    subprocess.run([compiler, "-O3", "-march=native", "-std=c++17", source, "-o", program], check=True)
    keys.tofile(folder / "keys")
    for draw in ("uniform", "zipf"):
        np.concatenate([np.array([batch], np.uint64), *batches(keys, draw == "zipf", batch)]).tofile(folder / draw)
        given.append(f"{draw}={folder / draw}")
    done = subprocess.run([program, str(dim), "5", folder / "keys", *given], check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        library, name, _, draw, value, _ = line.replace(": ", " ").split()
        yield Figure(f"{dim} floats: {name}, {draw}, {library}", float(value), "ns", peer=library)


def many_ids(run: Run, ids: int) -> Iterator[Figure]:
    """Yield rows a second of a network with bi-interaction over many ids a row in batches of 100.

    Source: Jiang et al., "XDL: An Industrial Deep Learning Framework for High-dimensional Sparse Data", DLP-KDD 2019.
    """
    rows, data = run.size(1_000, 4_000_000 // ids), run.folder / f"ids{ids}.parquet"
    write_ids(data, ids, rows)
    for workers in range(1, min(2, num_cores()) + 1):
        statement = (
            f"TRAIN OR REPLACE MODEL ctr USING xnn (interaction = 'bi') WITH (batch_size = 100, workers = {workers}) "
            f"AS SELECT * FROM parquet.`{data}`"
        )
        with cores(workers):
            runs = in_turns(run.rounds, {"": lambda s=statement: Xpsql(run.folder).run(s)}, [""])[""]  # type: ignore[misc]
        what = f"xnn, bi-interaction, {ids} ids a row: workers and cores {workers}"
        yield speed(what, rows, runs)
        yield Figure(f"{what}, CPU", statistics.median(cpu(runs)), "s")


def write_ids(path: Path, ids: int, rows: int) -> None:
    """Write rows of SLOTS arrays of ids, drawn by a Zipf law from a million each, and a label that is drawn."""
    random, each = np.random.default_rng(1), ids // SLOTS
    starts = np.arange(rows + 1, dtype=np.int32) * each
    slots = {f"s{n}": pa.ListArray.from_arrays(starts, ranks(VALUES, rows * each, True, random)) for n in range(SLOTS)}
    pq.write_table(pa.table({"label": random.integers(0, 2, rows).astype(np.int8), **slots}), path, row_group_size=10_000)
