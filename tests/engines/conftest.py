from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.spark.engine import SparkEngine


@pytest.fixture
def engine(warehouse: Path) -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine(warehouse)
    yield engine
    engine.close()


@pytest.fixture
def spark_engine(spark: SparkSession, warehouse: Path) -> Iterator[SparkEngine]:
    engine = SparkEngine(spark, warehouse, owned=False)
    yield engine
    engine.close()
