from collections.abc import Iterator
from pathlib import Path

import pytest

from xpsql.platform.engines.duckdb import DuckDBEngine


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def engine(warehouse: Path) -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine(warehouse)
    yield engine
    engine.close()
