"""Views: temporary ones of a session, and the warehouse's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from tests.cases import costly_after_first
from tests.engines.rows import rows
from xpsql.platform.engines.base import Engine, internal_name
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.duckdb.queries import Queries
from xpsql.platform.errors import StatementError


@pytest.fixture
def engine(opened: Callable[[], Engine]) -> Engine:
    return opened()


def run(engine: Engine, *statements: str) -> None:
    for statement in statements:
        engine.execute(statement)


@costly_after_first
def test_a_view_is_its_query_at_the_time_of_reading(engine: Engine, opened: Callable[[], Engine]) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("CREATE VIEW v (x COMMENT 'renamed') AS SELECT a + 1 FROM t")
    engine.execute("CREATE VIEW w AS SELECT x * 10 AS y FROM default.v")
    engine.execute("INSERT INTO t VALUES (5)")
    other = opened()
    assert rows(other, "SELECT w.y FROM w ORDER BY y DESC") == [(60,), (20,)]


def test_a_view_of_ours_is_analysed_once_by_the_statement_that_reads_it(warehouse: Path) -> None:
    engine, name = DuckDBEngine(warehouse), internal_name("call")
    with mock.patch.object(Queries, "schema", side_effect=AssertionError):
        engine.execute(f"CREATE TEMPORARY VIEW {name} AS SELECT 1 AS a")
    assert rows(engine, f"SELECT a FROM {name}") == [(1,)]


def test_a_temporary_view_hides_a_table(engine: Engine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("CREATE TEMP VIEW t AS SELECT a + 1 AS a FROM default.t")
    assert rows(engine, "SELECT t.a, d.a FROM t, default.t AS d") == [(2, 1)]
    engine.execute("DROP VIEW t")
    assert rows(engine, "SELECT * FROM t") == [(1,)]


def test_views_are_replaced_only_when_asked(engine: Engine) -> None:
    for kind in ("VIEW", "TEMPORARY VIEW"):
        engine.execute(f"CREATE {kind} v AS SELECT 1 AS a")
        with pytest.raises(StatementError, match="The view v exists"):
            engine.execute(f"CREATE {kind} v AS SELECT 2 AS a")
        if engine.name == "duckdb" or kind == "VIEW":  # Spark has no CREATE TEMPORARY VIEW IF NOT EXISTS
            engine.execute(f"CREATE {kind} IF NOT EXISTS v AS SELECT 2 AS a")
        engine.execute(f"CREATE OR REPLACE {kind} v AS SELECT 3 AS a")
        assert rows(engine, "SELECT * FROM v") == [(3,)]


def test_a_view_cannot_read_itself_or_what_ends_before_it(engine: Engine) -> None:
    engine.execute("CREATE VIEW v AS SELECT 1 AS a")
    with pytest.raises(StatementError, match="would read itself") as caught:
        engine.execute("CREATE OR REPLACE VIEW v AS\nSELECT * FROM v")
    assert caught.value.position == ((2, 15, "v") if engine.name == "duckdb" else None)
    engine.execute("CREATE TEMPORARY VIEW t AS SELECT 1 AS a")
    with pytest.raises(StatementError, match="outlive the temporary view t"):
        engine.execute("CREATE VIEW w AS SELECT * FROM t")
    engine.execute("CREATE VIEW x AS SELECT * FROM v")
    with pytest.raises(StatementError, match=r"The view v (reads|would read) itself"):
        run(engine, "CREATE OR REPLACE VIEW v AS SELECT * FROM x", "SELECT * FROM v")  # Spark tells at the first


def test_a_view_has_the_columns_that_its_table_has_by_now(engine: Engine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("CREATE VIEW v AS SELECT * FROM t")
    engine.execute("CREATE VIEW w AS SELECT *, 0 AS z FROM v")
    engine.execute("CREATE OR REPLACE TABLE t AS SELECT 2 AS b, 3 AS c")
    assert engine.columns("w") == ["b", "c", "z"]


def test_an_error_inside_a_view_names_it(engine: Engine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("CREATE VIEW v AS SELECT a FROM t")
    engine.execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS b")
    with pytest.raises(StatementError, match="The view v cannot be read: There is no column a"):
        engine.execute("SELECT * FROM v")


def test_a_view_names_as_many_columns_as_its_query_has(engine: Engine) -> None:
    with pytest.raises(StatementError, match="names 2 columns, its query has 1"):
        engine.execute("CREATE VIEW v (a, b) AS SELECT 1")
