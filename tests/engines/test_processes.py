"""Several processes on one warehouse, and processes that die."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.cases import lengthy, slow
from tests.engines.rows import rows
from tests.warehouse.kill import killed
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.errors import XpsqlError

ROUNDS = 12
INSERTS = """
import sys
from pathlib import Path
from xpsql.platform.engines.duckdb.engine import DuckDBEngine

engine = DuckDBEngine(Path(sys.argv[1]))
for i in range(20):
    engine.execute(f"INSERT INTO t SELECT {sys.argv[2]}L, {i}L")
"""


def changes(tell: Connection, warehouse: Path, number: int) -> None:
    """Write all rows of a table anew, for ever; tell the number of each change before it."""
    engine = DuckDBEngine(warehouse)
    engine.execute("SELECT 1")
    tell.send("ready")
    while True:
        number += 1
        tell.send(number)
        engine.execute(f"INSERT OVERWRITE t SELECT {number}L AS change, id FROM range(50000)")


@slow
def test_a_kill_at_any_moment_leaves_the_old_rows_or_the_new_ones(engine: DuckDBEngine, warehouse: Path) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")  # pytest shows it where the test fails
    chance = random.Random(seed)
    engine.execute("CREATE TABLE t AS SELECT 0L AS change, id FROM range(50000)")
    for _ in range(ROUNDS):
        [(before,)] = rows(engine, "SELECT max(change) FROM t")
        reported = killed(changes, [warehouse, before], chance, within_seconds=0.3)
        [(change, count)] = rows(engine, "SELECT change, count(*) FROM t GROUP BY change")
        assert count == 50_000
        assert change in ((reported[-1] - 1, reported[-1]) if reported else (before,))
    engine.execute("INSERT OVERWRITE t SELECT 1L, 1L")
    assert rows(engine, "SELECT * FROM t") == [(1, 1)]
    assert [path.name for path in (warehouse / "tables" / ".drafts").iterdir() if path.is_dir()] == []


@lengthy
def test_rows_of_two_processes_that_insert_at_once_are_all_there(engine: DuckDBEngine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t (process BIGINT, i BIGINT)")
    command = [sys.executable, "-c", INSERTS, str(warehouse)]
    with subprocess.Popen([*command, "1"]) as one, subprocess.Popen([*command, "2"]) as two:
        while one.poll() is None or two.poll() is None:
            for process, first, last, count in rows(engine, "SELECT process, min(i), max(i), count(*) FROM t GROUP BY process"):
                assert (process in (1, 2), first, last) == (True, 0, count - 1)
    assert (one.returncode, two.returncode) == (0, 0)
    assert rows(engine, "SELECT process, count(*) FROM t GROUP BY process ORDER BY process") == [(1, 20), (2, 20)]


@pytest.fixture
def small_files() -> Iterator[None]:
    """Let files of this process grow to 100 KB only, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_table_as_it_was(engine: DuckDBEngine, warehouse: Path, small_files: None) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(XpsqlError, match="raise the limit"):
        engine.execute("CREATE OR REPLACE TABLE t AS SELECT xxhash64(id) AS a FROM range(1000000)")
    assert rows(engine, "SELECT * FROM t") == [(1,)]
    assert not any((warehouse / "tables" / ".drafts").iterdir())


def test_a_warehouse_that_is_not_writable_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    engine = DuckDBEngine(tmp_path / "file" / "warehouse")
    with pytest.raises(XpsqlError, match="Cannot write"):
        engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(XpsqlError, match="Cannot write"):
        engine.execute("CREATE VIEW v AS SELECT 1 AS a")
    assert rows(engine, "SELECT 1 AS a") == [(1,)]
    engine.close()
