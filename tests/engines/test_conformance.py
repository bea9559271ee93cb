"""Every engine passes the conformance suite of engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases import costly_after_first
from tests.engines.pandas_engine import PandasEngine
from xpsql.platform.engines.base import Engine
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.spark.engine import SparkEngine
from xpsql.testing import ENGINE_CHECKS, EngineTrial


@pytest.fixture(params=["duckdb", "pandas", "spark"])
def opened(request: pytest.FixtureRequest) -> Callable[[Path], Engine]:
    """What opens an engine on a warehouse."""
    if request.param != "spark":
        return {"duckdb": DuckDBEngine, "pandas": PandasEngine}[request.param]
    spark = request.getfixturevalue("spark")
    return lambda warehouse: SparkEngine(spark, warehouse, owned=False)


@costly_after_first
@pytest.mark.parametrize("check", ENGINE_CHECKS, ids=lambda check: check.__name__)
def test_an_engine_conforms(check: Callable[[EngineTrial], None], opened: Callable[[Path], Engine], tmp_path: Path) -> None:
    check(EngineTrial(opened, tmp_path))
