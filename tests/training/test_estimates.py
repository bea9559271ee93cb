"""Estimates of what a training needs are about what it takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.training.log import write
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.input.encoder import Encoder
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.estimates import estimated_features
from xpsql.platform.training.recipe import algorithm_of, columns_from


@pytest.mark.parametrize("negatives", [0, 20])
def test_an_algorithm_of_pairs_is_estimated_by_pairs(tmp_path: Path, negatives: int) -> None:
    random, rows, items = np.random.default_rng(0), 3_000, 200
    history = [random.integers(0, items, 8).tolist() for _ in range(rows)]
    table = pa.table({"label": np.arange(rows) % 2, "item": random.integers(0, items, rows), "history": pa.array(history)})
    path = write(table, tmp_path / "log.parquet", row_group_rows=rows)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        options = f"USING slrm (negatives = {negatives}) WITH (share = (history AS item))"
        (trained,) = session.sql(f"TRAIN MODEL m {options} AS SELECT * FROM parquet.`{path}`").arrow().to_pylist()
        scan = session.engine.scan(f"SELECT * FROM parquet.`{path}`")
        assert isinstance(scan, ParquetScan)
        manifest = session.models.version("m", 1).manifest
    columns, algorithm = columns_from(manifest), algorithm_of(manifest)
    estimate = estimated_features(scan, scan.splits(), columns, Encoder(columns, algorithm, 7, compact=True))
    assert trained["rows"] > 10_000 > 2 * items
    assert 0.5 < estimate / trained["rows"] < 2
