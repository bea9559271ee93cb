"""Rows of what users took, for two towers: python -m benchmarks.towers PARQUET ROWS [SEED].

A row has the user's last items (`history`, one to fifteen), the item taken next, and its category. Items are drawn by Zipf's
law, half of them from the user's own category.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ITEMS, CATEGORIES, LONGEST = 20_000, 50, 15
DIM, TEMPERATURE = 64, 0.1
TOWERS = (
    "TRAIN OR REPLACE MODEL towers USING two_tower (query = (history), item = (item, category), "
    f"dim = {DIM}, temperature = {TEMPERATURE}) WITH (share = (history AS item), batch_size = {{batch}}, workers = 1) "
    "AS SELECT * FROM parquet.`{data}`"
)


def make(path: Path, rows: int, seed: int) -> None:
    """Write rows."""
    random = np.random.default_rng(seed)
    taste = random.integers(0, CATEGORIES, (rows, 1))
    items = (random.zipf(1.2, (rows, LONGEST + 1)) - 1) % ITEMS
    own = random.random(items.shape) < 0.5
    items = np.where(own, items - items % CATEGORIES + taste, items)  # an item's category is its number's rest
    lengths = random.integers(1, LONGEST + 1, rows)
    offsets = np.concatenate([[0], lengths.cumsum()])
    history = pa.ListArray.from_arrays(offsets.astype(np.int32), items[:, 1:][np.arange(LONGEST) < lengths[:, None]])
    table = pa.table({"history": history, "item": items[:, 0], "category": items[:, 0] % CATEGORIES})
    pq.write_table(table, path, row_group_size=1 << 17)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else 7)
