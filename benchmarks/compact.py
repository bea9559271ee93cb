"""A log of requests: what the rows of one have in common computed once, grouped and nested, beside row by row.

80 of 100 slots and a history of 100 items are the user's. Whole processes on one core, in turns, CPU seconds; and what is lost
where the rows of a user stand together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import Figure, Run, ratio, spread
from benchmarks.process import Xpsql, cores, cpu, in_turns

OF_USER, OF_ITEM, HISTORY, ITEMS, GROUP_ROWS = 79, 20, 100, 50_000, 100_000
TARGETS = {
    "xnn, 100 rows a request, grouped: times row by row": ">= 3",
    "xnn, 100 rows a request, nested: times row by row": ">= 10",
    "100 rows a request: bytes of the nested file, part of the flat one": "<= 0.25",
    "xnn, 10 rows a request, nested: times row by row": ">= 3",
}
LEARN = "TRAIN OR REPLACE MODEL m USING xnn LABEL click WITH (workers = 1, compact = '{}') AS SELECT {} FROM parquet.`{}`"


def figures(run: Run) -> Iterator[Figure]:
    for rows in (100, 10)[: run.size(1, 2)]:
        count, flat, nested = run.size(1_000, 300_000), run.folder / f"flat{rows}.parquet", run.folder / f"nested{rows}.parquet"
        write(nested, flat, count // rows, rows)
        share = nested.stat().st_size / flat.stat().st_size
        yield Figure(f"{rows} rows a request: bytes of the nested file, part of the flat one", share, "")
        statements = {
            "row by row": LEARN.format("off", "*", flat),
            "grouped": LEARN.format("auto", "*", flat),
            "nested": LEARN.format("auto", "* EXCEPT (candidates), inline(candidates)", nested),
        }
        with cores(1):
            work = {name: partial(Xpsql(run.folder).run, statement) for name, statement in statements.items()}
            found = in_turns(run.rounds, work, work)
        for name, runs in found.items():
            yield spread(f"xnn, {rows} rows a request, {name}: CPU", cpu(runs), "s")
            if name != "row by row":
                yield ratio(f"xnn, {rows} rows a request, {name}: times row by row", cpu(found["row by row"]), cpu(runs))


def write(nested: Path, flat: Path, users: int, rows: int) -> None:
    """Write requests: the slots of a user, what was clicked before, and the candidates with their slots; and a row for each."""
    random, count = np.random.default_rng(1), users * rows

    def lists(values: pa.Array, size: int) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(np.arange(0, (users + 1) * size, size, dtype=np.int32)), values)

    columns = {f"u{i}": pa.array(random.integers(0, 10 * 2 ** (i % 12), users).astype("U")) for i in range(OF_USER)}
    columns["clicked"] = lists(pa.array((random.zipf(1.3, users * HISTORY) % ITEMS).astype("U")), HISTORY)
    item, taste = random.zipf(1.3, count) % ITEMS, random.normal(size=(ITEMS, 4))
    liked = (random.normal(size=(users, 4)).repeat(rows, axis=0) * taste[item]).sum(axis=1)
    fields = {"item": pa.array(item.astype("U"))}
    fields |= {f"i{i}": pa.array((item * (2 * i + 1) % (7 * 2 ** (i % 10))).astype("U")) for i in range(1, OF_ITEM)}
    fields["click"] = pa.array((random.random(count) < 1 / (1 + np.exp(1.5 - liked))).astype(np.int8))
    candidates = lists(pa.StructArray.from_arrays(list(fields.values()), list(fields)), rows)
    table = pa.table({**columns, "candidates": candidates})
    pq.write_table(table, nested, row_group_size=max(1, GROUP_ROWS // rows), compression="zstd")
    whole = pa.table(columns).take(np.repeat(np.arange(users), rows))
    for name, values in fields.items():
        whole = whole.append_column(name, values)
    pq.write_table(whole, flat, row_group_size=GROUP_ROWS, compression="zstd")
