"""Logs with what USING auto must find, or must not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SLOTS = 6


def planted(rows: int, seed: int = 0, pairs: float = 1.5) -> pa.Table:
    """Return rows whose label depends on the pair of s0 and s1, and on s2; the other slots are noise.

    Args:
        pairs: how much the pair tells; 0 with `pairs = 0`, where the label is noise alone.
    """
    random = np.random.default_rng(seed)
    sizes = [12, 14, 10, 40, 300, 7]
    codes = [random.integers(0, size, rows) for size in sizes]
    score = pairs * random.normal(size=(12, 14))[codes[0], codes[1]] - 0.5
    score += 0.7 * bool(pairs) * random.normal(size=10)[codes[2]]
    label = (random.random(rows) < 1 / (1 + np.exp(-score))).astype(np.int32)
    return pa.table(
        {
            **{f"s{n}": [f"v{code}" for code in one] for n, one in enumerate(codes)},
            "label": label,
            "ts": pa.array(1_700_000_000_000_000 + np.arange(rows) * 1_000_000, pa.timestamp("us", "UTC")),
        }
    )


def written(table: pa.Table, path: Path) -> str:
    """Write a log, and return the query of its rows."""
    pq.write_table(table, path, row_group_size=2000)
    return f"SELECT * FROM parquet.`{path}`"
