"""kill -9 while a statement writes a table of Iceberg or Delta: its readers see the old rows, and the next statement works."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.cases import lengthy
from tests.engines.lake import catalog
from tests.engines.rows import rows
from tests.forkserver import CONTEXT
from xpsql.platform.engines.duckdb.engine import DuckDBEngine

PACKAGES = {"iceberg": "pyiceberg", "delta": "deltalake"}
"""What writes the formats."""


@pytest.fixture(params=PACKAGES)
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of column x with the rows 1 and 2, whose data files are closed at 100 kB."""
    pytest.importorskip(PACKAGES[request.param])
    folder = tmp_path / "lake"
    if request.param == "delta":
        name = f"delta.`{folder}/t`"
    else:
        catalog(folder, monkeypatch)
        name = "lake.sales.t"
    engine = DuckDBEngine(tmp_path / "warehouse")
    engine.execute(f"CREATE TABLE {name} AS SELECT CAST(id + 1 AS BIGINT) AS x FROM range(2)")
    engine.close()
    if request.param == "delta":
        from deltalake import DeltaTable

        DeltaTable(folder / "t").alter.set_table_properties({"delta.targetFileSize": "100000"})
    else:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config

        found = load_catalog("lake", **(Config().get_catalog_config("lake") or {})).load_table("sales.t")
        with found.transaction() as change:
            change.set_properties({"write.target-file-size-bytes": "100000"})
    return name


def data_files(folder: Path) -> int:
    """Return how many there are, those half written too."""
    return sum(1 for path in folder.rglob("*.parquet*") if "_delta_log" not in path.parts)


def fill(tell: Connection, warehouse: Path, statement: str, catalogs: Mapping[str, str]) -> None:
    """Run a statement that takes minutes.

    Args:
        catalogs: pyiceberg's variables; the server that forks this process has those of an earlier test.
    """
    os.environ.update(catalogs)
    engine = DuckDBEngine(warehouse)
    tell.send("begins")
    engine.execute(statement)
    tell.send("has ended, which it should not have")


def values(engine: DuckDBEngine, table: str) -> list[int]:
    return sorted(x for (x,) in rows(engine, f"SELECT x FROM {table}"))


@lengthy
@pytest.mark.parametrize("words", ["INTO", "OVERWRITE"])
def test_a_kill_between_data_files_and_commit_leaves_the_rows_and_the_next_insert_works(
    table: str, tmp_path: Path, words: str
) -> None:
    before = data_files(tmp_path / "lake")
    reported, tell = CONTEXT.Pipe(duplex=False)
    catalogs = {name: value for name, value in os.environ.items() if name.startswith("PYICEBERG")}
    statement = f"INSERT {words} {table} SELECT id AS x FROM range(2000000000)"
    process = CONTEXT.Process(target=fill, args=(tell, tmp_path / "warehouse", statement, catalogs))
    process.start()
    tell.close()
    assert reported.recv() == "begins"
    deadline = time.monotonic() + 60
    while data_files(tmp_path / "lake") == before and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.join()
    assert process.exitcode == -9
    assert data_files(tmp_path / "lake") > before
    engine = DuckDBEngine(tmp_path / "warehouse")
    assert values(engine, table) == [1, 2]
    engine.execute(f"INSERT INTO {table} VALUES (3)")
    engine.execute(f"INSERT OVERWRITE {table} SELECT x + 1 FROM {table}")
    assert values(engine, table) == [2, 3, 4]
    engine.close()
