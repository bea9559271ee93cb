"""A small log of clicks with every kind of slot, made by arithmetic, the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from xpsql.platform.progress import SilentReporter


def log(rows: int, seed: int = 1) -> pa.Table:
    """Return clicks whose rate depends on user, item and price."""
    random = np.random.default_rng(seed)
    user = random.zipf(1.3, rows) % 500
    item = random.zipf(1.2, rows) % 300
    price = random.lognormal(2, 1, rows)
    tags = [[f"t{t}" for t in random.integers(0, 9, n)] for n in random.integers(0, 4, rows)]
    scores = [
        [(f"s{s}", float(v)) for s, v in zip(random.integers(0, 5, 2), random.random(2), strict=True)] for _ in range(rows)
    ]
    signal = np.sin(user * 1.7) + np.cos(item * 0.9) - 0.5 * np.log(price)
    return pa.table(
        {
            "label": pa.array((random.random(rows) < 1 / (1 + np.exp(-signal))).astype(np.int32)),
            "ts": pa.array(1_700_000_000_000_000 + np.arange(rows) * 1_000_000, pa.timestamp("us", "UTC")),
            "user": pa.array([f"u{u}" for u in user], mask=random.random(rows) < 0.05),
            "item": pa.array(item, pa.int64()),
            "price": pa.array(price, mask=random.random(rows) < 0.1),
            "tags": pa.array(tags),
            "scores": pa.array(scores, pa.map_(pa.string(), pa.float64())),
            "vector": pa.array(random.normal(size=(rows, 3)).astype(np.float32).tolist(), pa.list_(pa.float32())),
        }
    )


def write(table: pa.Table, path: Path, row_group_rows: int = 1000) -> Path:
    pq.write_table(table, path, row_group_size=row_group_rows)
    return path


embedded = pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
"""Marks tests of `session` for which it makes no difference which engine reads the rows."""


@pytest.fixture
def session(tmp_path: Path, engine: str | SparkSession) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", engine, SilentReporter()) as session:
        yield session
