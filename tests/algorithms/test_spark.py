"""Every algorithm on Spark: with one worker and one shard it learns the rows that it learns on the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.algorithms.uses import USES, rows
from tests.cases import lengthy, quick
from tests.training.log import log, write
from xpsql.platform.progress import SilentReporter

ROWS = 512
QUICK = ("xftrl", "din", "owlqn", "word2vec", "xgboost")
"""One of each way to learn; on the embedded engine `make test` trains every algorithm."""


def learned(warehouse: Path) -> tuple[Any, Any, list[float]]:
    """Return rows, weights and metrics of a model; read by the embedded engine, which is faster for so few."""
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        metrics = session.sql("SELECT * EXCEPT (measured_on) FROM ML.EVALUATE(MODEL m)").arrow().to_pylist()[0]
        return *rows(session, "m"), [value for value in metrics.values() if value is not None]


@lengthy
@pytest.mark.parametrize("algorithm", quick(USES, QUICK))
def test_it_learns_the_rows_of_the_embedded_engine(spark: SparkSession, tmp_path: Path, algorithm: str) -> None:
    statement = USES[algorithm].train("m", algorithm, write(log(ROWS), tmp_path / "log.parquet", ROWS))
    with xpsql.connect(tmp_path / "spark", spark, SilentReporter()) as session:
        session.sql(statement)
    with xpsql.connect(tmp_path / "embedded", "duckdb", SilentReporter()) as session:
        session.sql(statement)
    (here, weights, metrics), (there, other_weights, other_metrics) = (
        learned(tmp_path / name) for name in ("embedded", "spark")
    )
    assert here == there
    np.testing.assert_allclose(other_weights, weights, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other_metrics, metrics, rtol=1e-4)
