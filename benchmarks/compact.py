"""Compact computation: trainings of one log, nested and flat, grouped and row by row; CPU seconds of whole processes.

python -m benchmarks.compact [users] [rows a user] [repeats] [algorithm ...]: 2,000 users of 100 rows, three times, xnn, xftrl
and fm, if nothing is said.

The log is made: 80 of 100 slots, and a history of 100 items, are the user's, as in a log of requests with many candidates each.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.process import cores

OF_USER, OF_ITEM, HISTORY, ITEMS = 79, 20, 100, 50_000
GROUP_ROWS = 100_000
USERS = [f"u{i}" for i in range(OF_USER)]


def log(users: int, rows: int, seed: int) -> pa.Table:
    """Return requests: the slots of a user, what was clicked before, and the candidates with their slots."""
    random = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {}
    for i, name in enumerate(USERS):
        columns[name] = pa.array(random.integers(0, 10 * 2 ** (i % 12), users).astype("U"))
    clicked = random.zipf(1.3, users * HISTORY) % ITEMS
    columns["clicked"] = lists(pa.array(clicked.astype("U")), users, HISTORY)
    count = users * rows
    item = random.zipf(1.3, count) % ITEMS
    taste = random.normal(size=(ITEMS, 4))
    liked = (random.normal(size=(users, 4)).repeat(rows, axis=0) * taste[item]).sum(axis=1)
    fields: dict[str, pa.Array] = {"item": pa.array(item.astype("U"))}
    for i in range(1, OF_ITEM):
        fields[f"i{i}"] = pa.array((item * (2 * i + 1) % (7 * 2 ** (i % 10))).astype("U"))
    fields["click"] = pa.array((random.random(count) < 1 / (1 + np.exp(1.5 - liked))).astype(np.int8))
    columns["candidates"] = lists(pa.StructArray.from_arrays(list(fields.values()), list(fields)), users, rows)
    return pa.table(columns)


def lists(values: pa.Array, count: int, size: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(0, (count + 1) * size, size, dtype=np.int32)), values)


def flat(nested: pa.Table) -> pa.Table:
    """Return a row for each candidate."""
    candidates = nested.column("candidates").combine_chunks()
    owner = np.repeat(np.arange(len(candidates)), np.diff(candidates.offsets.to_numpy()))
    of_users = nested.drop_columns(["candidates"]).take(owner)
    values = candidates.flatten()
    for i, field in enumerate(values.type):
        of_users = of_users.append_column(field.name, values.field(i))
    return of_users


def write(folder: Path, users: int, rows: int) -> float:
    """Write a log, nested and flat; return how large the nested file is beside the flat one."""
    nested = log(users, rows, 1)
    pq.write_table(nested, folder / "nested.parquet", row_group_size=max(1, GROUP_ROWS // rows), compression="zstd")
    pq.write_table(flat(nested), folder / "flat.parquet", row_group_size=GROUP_ROWS, compression="zstd")
    one, other = ((folder / f"{kind}.parquet").stat().st_size for kind in ("nested", "flat"))
    return one / other


def trainings(folder: Path, algorithms: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what is trained, and its statement."""
    of_flat = f"SELECT * FROM parquet.`{folder}/flat.parquet`"
    of_nested = f"SELECT * EXCEPT (candidates), inline(candidates) FROM parquet.`{folder}/nested.parquet`"
    for algorithm in algorithms:
        text = f"TRAIN OR REPLACE MODEL m USING {algorithm} LABEL click WITH (workers = 1, compact = '%s') AS "
        yield f"{algorithm}, flat, row by row", text % "off" + of_flat
        yield f"{algorithm}, flat, grouped", text % "auto" + of_flat
        yield f"{algorithm}, nested, grouped", text % "auto" + of_nested


def cpu_seconds(statement: str, folder: Path) -> float:
    """Run a statement in a process of its own and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("xpsql")), "sql", statement, "--warehouse", str(folder / "warehouse")]
    with cores(1):
        subprocess.run(command, check=True, capture_output=True, timeout=3600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(folder: Path, repeats: int, algorithms: Sequence[str]) -> dict[str, float]:
    """Return the median CPU seconds of each training of a log that `write` has written; a first one compiles for all."""
    found: dict[str, list[float]] = {}
    for repeat in range(repeats + 1):
        for what, statement in trainings(folder, algorithms):
            seconds = cpu_seconds(statement, folder)
            if repeat:
                found.setdefault(what, []).append(seconds)
    return {what: statistics.median(seconds) for what, seconds in found.items()}


def main(users: int, rows: int, repeats: int, algorithms: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        share = write(Path(name), users, rows)
        print(f"{users * rows:,} rows of {users:,} users: the nested file has {share:.2f} of the flat one's bytes")
        for what, seconds in measured(Path(name), repeats, algorithms).items():
            print(f"{what:26} {seconds:6.2f} CPU s, {users * rows / seconds:9,.0f} rows a CPU second")


if __name__ == "__main__":
    given = sys.argv[1:4]
    sizes = (int(size) for size in (*given, *("2000", "100", "3")[len(given) :]))
    main(*sizes, sys.argv[4:] or ["xnn", "xftrl", "fm"])
