"""Every algorithm on Spark: with one worker and one shard it learns the rows that it learns on the embedded engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

import xpsql
from xpsql.platform.progress import SilentReporter

from ..training.log import log, write
from .uses import USES, rows

ROWS = 512


@pytest.mark.parametrize("algorithm", USES)
def test_it_learns_the_rows_of_the_embedded_engine(spark: SparkSession, tmp_path: Path, algorithm: str) -> None:
    statement = USES[algorithm].train("m", algorithm, write(log(ROWS), tmp_path / "log.parquet", ROWS))
    found = []
    for name, engine in (("embedded", "duckdb"), ("spark", spark)):
        with xpsql.connect(tmp_path / name, engine, SilentReporter()) as session:
            session.sql(statement)
            metrics = session.sql("SELECT * FROM ML.EVALUATE(MODEL m)").arrow().to_pylist()[0]
            found.append((*rows(session, "m"), [value for value in metrics.values() if value is not None]))
    (here, weights, metrics), (there, other_weights, other_metrics) = found
    assert here == there
    np.testing.assert_allclose(other_weights, weights, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other_metrics, metrics, rtol=1e-4)
