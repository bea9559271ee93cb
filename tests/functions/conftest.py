"""A warehouse with a model of two tables: trained once, and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.training.log import log, write
from xpsql.platform.progress import SilentReporter


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    path = write(log(3000), folder / "log.parquet")
    with xpsql.connect(folder / "warehouse", "duckdb", SilentReporter()) as session:
        query = f"SELECT label, ts, user, item, tags FROM parquet.`{path}`"
        session.sql(f"TRAIN MODEL m USING fm (dim = 4) LABEL label TIME ts AS {query}")
    return folder / "warehouse"


@pytest.fixture
def session(trained: Path, tmp_path: Path, engine: Any) -> Any:
    shutil.copytree(trained, tmp_path / "warehouse")
    with xpsql.connect(tmp_path / "warehouse", engine, SilentReporter()) as session:
        yield session
