"""Make a log of rows with many ids, as the article on XDL measures its speed with: 100 or 300 ids a row.

    python -m benchmarks.many_ids FILE IDS ROWS

A row has SLOTS arrays of ids, drawn by a Zipf law from a million each, and a label that is drawn.

Source: Jiang et al., "XDL: An Industrial Deep Learning Framework for High-dimensional Sparse Data", DLP-KDD 2019: a network
with bi-interaction over 100 and 300 ids a sample, batches of 100.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.store import zipf

SLOTS, VALUES = 20, 1_000_000
BI_INTERACTION = (
    "TRAIN OR REPLACE MODEL ctr USING xnn (interaction = 'bi') WITH (batch_size = 100, workers = {workers}) "
    "AS SELECT * FROM parquet.`{data}`"
)


def make(path: Path, ids: int, rows: int) -> None:
    """Write a log of so many ids a row."""
    random, each = np.random.default_rng(1), ids // SLOTS
    starts = np.arange(rows + 1, dtype=np.int32) * each
    slots = {f"s{n}": pa.ListArray.from_arrays(starts, zipf(VALUES, rows * each, random)) for n in range(SLOTS)}
    pq.write_table(pa.table({"label": random.integers(0, 2, rows).astype(np.int8), **slots}), path, row_group_size=10_000)


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:]))
