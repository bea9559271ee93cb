"""Tables of the warehouse."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.cases import costly, costly_after_first, lengthy
from tests.engines.rows import rows
from xpsql.platform.engines.base import Engine
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.engines.spark.engine import SparkEngine
from xpsql.platform.errors import ModelError, StatementError
from xpsql.warehouse.tables import Change, Tables


@pytest.fixture
def engine(opened: Callable[[], Engine]) -> Engine:
    return opened()


def files(warehouse: Path, table: str) -> list[str]:
    return sorted(path.name for path in (warehouse / "tables" / table / "_data").iterdir())


@lengthy
def test_nothing_is_written_before_the_first_table(engine: Engine, warehouse: Path) -> None:
    engine.execute("SELECT 1")
    assert engine.relations() == []
    assert not warehouse.exists()


@lengthy
def test_a_table_outlives_the_session(engine: Engine, opened: Callable[[], Engine]) -> None:
    assert engine.execute("CREATE TABLE T USING parquet AS SELECT 1 AS a, 'x' AS b") is None
    other = opened()
    assert rows(other, "SELECT * FROM default.t") == [(1, "x")]


@costly_after_first
def test_inserted_rows_come_after_those_there(engine: Engine) -> None:
    engine.execute("CREATE TABLE t (a BIGINT, b STRING COMMENT 'text', c DECIMAL, d TIMESTAMP, e ARRAY<INT>)")
    assert rows(engine, "SELECT * FROM t") == []
    engine.execute("INSERT INTO t (b, a) VALUES ('x', 1)")
    engine.execute("INSERT INTO TABLE t SELECT 2, 'y', 3.7, TIMESTAMP'2020-01-01 00:00:00', array(1)")
    assert rows(engine, "SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y")]
    described = rows(engine, "DESCRIBE TABLE t")
    assert [kind for _, kind, _ in described] == ["bigint", "string", "decimal(10,0)", "timestamp", "array<int>"]


@costly_after_first
def test_inserted_values_are_cast_as_spark_does(engine: Engine) -> None:
    engine.execute("CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(5,1), f ARRAY<INT>, g BOOLEAN, h BINARY)")
    engine.execute("INSERT INTO t SELECT 2.7D, -3.5D, 1e10D, 3, 1.25, array(2.7D, NULL), true, encode('x', 'utf-8')")
    engine.execute("INSERT INTO t (b, c, e, a) SELECT 9.99, true, 2, CAST(-2.7 AS FLOAT)")
    engine.execute("INSERT INTO t SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL")
    assert rows(engine, "SELECT * FROM t") == [
        (2, -3, "1.0E10", 3.0, Decimal("1.3"), [2, None], True, b"x"),
        (-2, 9, "true", None, Decimal("2.0"), None, None, None),
        (None,) * 8,
    ]
    with pytest.raises(StatementError):
        engine.execute("INSERT INTO t (a) SELECT 3000000000")


@costly_after_first
def test_an_insert_stands_anywhere_in_its_query_and_fills_columns_by_name(engine: Engine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t (a INT, b STRING)")
    engine.execute("INSERT INTO t BY NAME SELECT 'x' AS B, 1 AS a")
    engine.execute("WITH q AS (SELECT 2 AS n, '(' AS s) INSERT INTO t SELECT * FROM q")
    engine.execute("FROM t INSERT INTO default.t (b, a) SELECT concat(b, '!'), a + 2 WHERE a = 1")
    engine.execute("INSERT INTO t BY NAME (SELECT 4 AS a)")
    assert rows(engine, "SELECT * FROM t ORDER BY a") == [(1, "x"), (2, "("), (3, "x!"), (4, None)]
    engine.execute("WITH q AS (SELECT 5 AS a) FROM q INSERT OVERWRITE TABLE t BY NAME SELECT *")
    for reader in (engine, DuckDBEngine(warehouse)):
        assert rows(reader, "SELECT * FROM t") == [(5, None)]
    with pytest.raises(StatementError) as caught:
        engine.execute("WITH q AS (SELECT 1 AS a)\nINSERT INTO t\nSELECT nope, a FROM q")
    assert caught.value.position == (3, 8, "nope")


@costly_after_first
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("others", ["id", "7", "if(id = 5, CAST('-inf' AS DOUBLE), CAST('inf' AS DOUBLE))"])
def test_nan_in_a_table_is_found(engine: Engine, kind: str, others: str) -> None:
    engine.execute(f"CREATE TABLE t AS SELECT id, CAST(if(id = 3, double('nan'), {others}) AS {kind}) AS x FROM range(10)")
    engine.execute("INSERT INTO t VALUES (10, NULL)")
    assert rows(engine, "SELECT isnan(x), nanvl(x, -1D), CAST(x AS STRING) FROM t WHERE id = 3") == [(True, -1.0, "NaN")]
    assert rows(engine, "SELECT id FROM t WHERE isnan(x)") == [(3,)]
    assert rows(engine, "SELECT count(*), count_if(isnan(x)) FROM t WHERE NOT isnan(x) OR id = 3") == [(11, 1)]
    assert rows(engine, "SELECT count(*) FROM t WHERE isnan(-x + 1) OR nanvl(x, -1D) = -1") == [(1,)]


@costly_after_first
def test_nan_is_above_all_numbers(engine: Engine, tmp_path: Path) -> None:
    rows_of = "SELECT id, if(id = 3, double('nan'), double(id)) AS x, named_struct('y', if(id = 3, double('nan'), 1D)) AS s"
    engine.execute(f"CREATE TABLE own AS {rows_of} FROM range(5)")
    pq.write_table(engine.execute("SELECT * FROM own"), tmp_path / "foreign.parquet")
    for table in ("own", f"parquet.`{tmp_path / 'foreign.parquet'}`"):
        assert rows(engine, f"SELECT count(*) FROM {table} WHERE x < 10") == [(4,)]
        assert rows(engine, f"SELECT count(*) FROM {table} WHERE x BETWEEN 0 AND 5") == [(4,)]
        assert rows(engine, f"SELECT count(*) FROM {table} WHERE s.y < 10") == [(4,)]
        assert rows(engine, f"SELECT CAST(max(x) AS STRING), min(x) FROM {table}") == [("NaN", 0)]
    assert rows(engine, "SELECT id FROM own WHERE x > 10") == [(3,)]
    assert rows(engine, "SELECT id FROM own WHERE s.y > 10") == [(3,)]


@lengthy
def test_overwriting_replaces_all_rows_and_keeps_the_columns(engine: Engine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1L AS a")
    engine.execute("INSERT OVERWRITE TABLE t VALUES (7), (8)")
    assert sorted(rows(engine, "SELECT * FROM t")) == [(7,), (8,)]
    assert engine.schema("SELECT * FROM t").types == [pa.int64()]
    engine.execute("CREATE OR REPLACE TABLE t AS SELECT a + 1 AS b FROM t")
    assert sorted(rows(engine, "SELECT * FROM t")) == [(8,), (9,)]


def test_if_not_exists_leaves_a_table_as_it_is(engine: Engine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("CREATE TABLE IF NOT EXISTS t AS SELECT 2 AS a")
    assert rows(engine, "SELECT * FROM t") == [(1,)]
    with pytest.raises(StatementError, match="The table t exists") as caught:
        engine.execute("CREATE TABLE t AS SELECT 2 AS a")
    assert caught.value.position == (1, 14, "t")


def test_a_dropped_table_is_gone(engine: Engine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("DROP TABLE t")
    assert not (warehouse / "tables" / "t").exists()
    engine.execute("DROP TABLE IF EXISTS t")
    with pytest.raises(StatementError, match=r"There is no table (or view )?t"):
        engine.execute("DROP TABLE t")


def test_tables_are_shown_by_pattern(engine: Engine) -> None:
    for name in ("clicks", "users"):
        engine.execute(f"CREATE TABLE {name} AS SELECT 1 AS a")
    engine.execute("CREATE TEMPORARY VIEW clean AS SELECT * FROM clicks")
    clean, clicks, users = ("", "clean", True), ("default", "clicks", False), ("default", "users", False)
    assert sorted(rows(engine, "SHOW TABLES")) == [clean, clicks, users]
    assert sorted(rows(engine, "SHOW TABLES IN default LIKE 'cl*'")) == [clean, clicks]
    assert rows(engine, "SHOW VIEWS") == [("", "clean", True)]


@costly_after_first
def test_a_reader_of_the_state_before_goes_on(engine: Engine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT id FROM range(500000)")
    scan = engine.scan("SELECT * FROM t")
    assert isinstance(scan, ParquetScan)
    engine.execute("INSERT OVERWRITE t SELECT 1")
    assert pq.read_table(list(scan.files)).num_rows == 500_000
    engine.execute("INSERT OVERWRITE t SELECT 2")
    assert not Path(scan.files[0]).exists()
    assert len(files(warehouse, "t")) == 2


@costly_after_first
def test_rows_that_are_added_leave_the_files_that_others_read(engine: Engine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 0 AS a")
    scan = engine.scan("SELECT * FROM t")
    assert isinstance(scan, ParquetScan)
    for i in range(1, 5):
        engine.execute(f"INSERT INTO t SELECT {i}")
    assert Path(scan.files[0]).exists()
    assert rows(engine, "SELECT * FROM t ORDER BY a") == [(i,) for i in range(5)]


def fail_links(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    def failing(self: Path, target: Path) -> None:
        raise error

    patch.setattr(Path, "symlink_to", failing)


def test_rows_that_are_in_a_table_are_no_error_though_its_links_cannot_be_made(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    with monkeypatch.context() as patch:
        fail_links(patch, OSError(errno.ENOSPC, "No space left on device"))
        engine.execute("INSERT INTO t SELECT 2")
    assert rows(engine, "SELECT * FROM t ORDER BY a") == [(1,), (2,)]


def test_spark_reads_what_a_killed_writer_had_committed(
    warehouse: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded, engine = DuckDBEngine(warehouse), SparkEngine(spark, warehouse, owned=False)
    embedded.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert rows(engine, "SELECT * FROM t") == [(1,)]
    for statement, expected in (("INSERT INTO t SELECT 2", [(1,), (2,)]), ("INSERT OVERWRITE t SELECT 3", [(3,)])):
        with monkeypatch.context() as patch:
            fail_links(patch, KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                embedded.execute(statement)
        for each in (embedded, engine):
            assert rows(each, "SELECT * FROM t ORDER BY a") == expected
    embedded.close()
    engine.close()


@pytest.mark.parametrize("insert", ["INSERT INTO t", "INSERT OVERWRITE t"])
def test_rows_of_a_table_that_was_replaced_meanwhile_are_refused(
    engine: Engine, warehouse: Path, monkeypatch: pytest.MonkeyPatch, insert: str
) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a, array('x') AS b")
    other, put = DuckDBEngine(warehouse), Tables.put

    def meanwhile(replacing: str) -> None:
        def late(self: Tables, name: str, draft: Path, change: Change, *partitions: Any) -> bool:
            monkeypatch.setattr(Tables, "put", put)
            other.execute(replacing)
            return put(self, name, draft, change, *partitions)

        monkeypatch.setattr(Tables, "put", late)

    meanwhile("INSERT INTO t SELECT 5, NULL")
    engine.execute(f"{insert} SELECT 2, array('y')")
    assert (2,) in rows(engine, "SELECT a FROM t")
    meanwhile("CREATE OR REPLACE TABLE t AS SELECT 'new' AS c")
    with pytest.raises(StatementError, match=r"it has the columns c STRING now, the rows have a INT, b ARRAY<STRING>\. Run"):
        engine.execute(f"{insert} SELECT 3, array('z')")
    assert rows(engine, "SELECT * FROM t") == [("new",)]
    meanwhile("DROP TABLE t")
    with pytest.raises(StatementError, match=r"There is no table (or view )?t"):
        engine.execute(f"{insert} SELECT 'x'")
    other.close()


def test_leftovers_that_cannot_be_removed_are_no_error(
    engine: Engine, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (warehouse / "tables" / ".drafts" / "left").mkdir(parents=True)
    with monkeypatch.context() as patch:

        def denied(path: Path, **named: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

        patch.setattr(os, "rmdir", denied)
        engine.execute("CREATE TABLE t AS SELECT 1 AS a")
        engine.execute("DROP TABLE t")
        assert engine.relations() == []
    engine.execute("CREATE TABLE t AS SELECT 2 AS a")
    assert rows(engine, "SELECT * FROM t") == [(2,)]
    assert not any((warehouse / "tables" / ".drafts").iterdir())


def test_other_programs_read_the_folder_as_it_is(engine: Engine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("INSERT INTO t SELECT 2")
    folder = warehouse / "tables" / "t"
    assert pq.read_table(folder).column("a").to_pylist() == [1, 2]
    engine.execute("INSERT OVERWRITE t SELECT 3")
    assert pq.read_table(folder).column("a").to_pylist() == [3]
    assert rows(engine, f"SELECT * FROM parquet.`{folder}`") == [(3,)]


@costly_after_first
def test_a_query_that_fails_half_way_leaves_no_table(engine: Engine, warehouse: Path) -> None:
    failing = "SELECT CAST(CASE WHEN id = 700000 THEN 'x' ELSE '1' END AS INT) AS a FROM range(1000000)"
    with pytest.raises(StatementError):
        engine.execute(f"CREATE TABLE t AS {failing}")
    assert engine.relations() == []
    engine.execute("CREATE TABLE t AS SELECT 5 AS a")
    with pytest.raises(StatementError):
        engine.execute(f"INSERT OVERWRITE t {failing}")
    assert rows(engine, "SELECT * FROM t") == [(5,)]
    assert not any((warehouse / "tables" / ".drafts").iterdir())


@costly_after_first
def test_the_rows_of_a_query_become_a_table_whole_or_not_at_all(engine: Engine) -> None:
    broken = "SELECT id, CAST(IF(id < 900000, '1', 'x') AS INT) AS a FROM range(1000000)"
    with pytest.raises(StatementError, match="'x'"):
        engine.write_table("t", broken, replace=False, format="parquet")
    assert engine.relations() == []
    assert engine.write_table("default.t", "SELECT * FROM VALUES (1), (2) AS v(a)", replace=False, format="parquet") == 2
    with pytest.raises(StatementError, match="exists"):
        engine.write_table("t", "SELECT 3 AS a", replace=False, format="parquet")
    assert engine.write_table("t", "SELECT 3 AS a", replace=True, format="parquet") == 1
    assert rows(engine, "SELECT * FROM t") == [(3,)]
    assert engine.write_table("t", "SELECT * FROM t WHERE a > 3", replace=True, format="parquet") == 0


def test_names_are_whatever_backticks_hold(warehouse: Path, spark: SparkSession) -> None:
    engine = DuckDBEngine(warehouse)
    engine.execute("CREATE TABLE `my t/a.ble` AS SELECT 1 AS `a b`")
    assert rows(engine, "SELECT `a b` FROM `My T/a.ble`") == [(1,)]
    assert engine.relations() == ["my t/a.ble"]
    engine.close()
    other = SparkEngine(spark, warehouse, owned=False)
    assert other.relations() == []
    with pytest.raises(StatementError, match="letters, digits and _ only"):
        other.execute("CREATE TABLE `a b` AS SELECT 1 AS a")
    other.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE t AS SELECT 1 AS a, 2 AS A", "two columns named a"),
        ("CREATE TABLE t AS SELECT NULL AS a", "NULL without a type"),
        ("INSERT INTO u VALUES (1)", "There is no table or view u. Did you mean"),
        ("INSERT INTO uu VALUES (1, 2)", "the query has 2 columns"),
        ("INSERT INTO uu (b) VALUES (1)", "There is no column of uu named b"),
        ("INSERT INTO uu BY NAME SELECT 1 AS b", "There is no column of uu named b"),
        ("INSERT INTO vv VALUES (1)", "vv`? is a view|into a view is not allowed"),
        ("DROP TABLE vv", "Use DROP VIEW"),
        ("DROP VIEW uu", "Use DROP TABLE"),
        ("CREATE TABLE vv AS SELECT 1 AS a", "The view vv exists"),
        ("CREATE VIEW uu AS SELECT 1 AS a", "The table uu exists"),
    ],
)
def test_statements_that_cannot_run_say_why(engine: Engine, statement: str, message: str) -> None:
    engine.execute("CREATE TABLE uu AS SELECT 1 AS a")
    engine.execute("CREATE VIEW vv AS SELECT 1 AS a")
    with pytest.raises(StatementError, match=message):
        engine.execute(statement)
    assert engine.relations() == ["uu", "vv"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE t (a INT, A STRING)", "listed twice"),
        ("CREATE TABLE t (a INT NOT NULL)", "NOT NULL"),
        ("CREATE TABLE t USING csv AS SELECT 1 AS a", "Parquet"),
        ("CREATE TABLE other.t AS SELECT 1 AS a", "There is no database other"),
        ("TRUNCATE TABLE uu", "does not run 'TRUNCATE TABLE'"),
    ],
)
def test_what_only_spark_has_is_refused_by_the_embedded_engine(warehouse: Path, statement: str, message: str) -> None:
    engine = DuckDBEngine(warehouse)
    engine.execute("CREATE TABLE uu AS SELECT 1 AS a")
    with pytest.raises(StatementError, match=message):
        engine.execute(statement)
    assert engine.relations() == ["uu"]
    engine.close()


REFUSED = [
    "INSERT INTO t TABLE t",
    "FROM t INSERT INTO t SELECT * INSERT INTO t SELECT a + 1",
    "EXECUTE IMMEDIATE 'INSERT OVERWRITE t SELECT 2'",
    "ALTER TABLE t ADD COLUMNS (b INT)",
    "ALTER TABLE default.t RENAME TO u",
    "ALTER VIEW v AS SELECT 2 AS a",
    "COMMENT ON TABLE t IS 'mine'",
    "CREATE OR REPLACE VIEW v TBLPROPERTIES ('x' = 'y') AS SELECT 2 AS a",
    "USE other; DELETE FROM default.t WHERE a = 1",
    "USE other; ALTER TABLE default.t DROP PARTITION (a = 1)",
    "UPDATE t SET a = 2",
    "MERGE INTO t USING v ON t.a = v.a WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE t",
    "USE other; INSERT INTO default.t SELECT 2",
    "USE other; WITH q AS (SELECT 2 AS a) INSERT OVERWRITE default.t SELECT * FROM q",
    "USE other; CREATE OR REPLACE VIEW default.v AS SELECT 2 AS a",
    "USE other; DROP TABLE IF EXISTS default.t",
    "USE other; DROP VIEW default.v",
]


@costly
def test_nothing_else_changes_tables_and_views_on_spark(warehouse: Path, spark: SparkSession) -> None:
    engine, embedded = SparkEngine(spark, warehouse, owned=False), DuckDBEngine(warehouse)
    engine.execute("CREATE DATABASE IF NOT EXISTS other")
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("CREATE VIEW v AS SELECT * FROM t")
    for statement in REFUSED:
        *before, last = statement.split("; ")
        for text in before:
            engine.execute(text)
        assert is_refused(engine, last), statement
        spark.catalog.setCurrentDatabase("default")
        for reader in (engine, embedded):
            assert (reader.relations(), rows(reader, "SELECT * FROM v")) == (["t", "v"], [(1,)]), statement
    engine.execute("INSERT INTO t SELECT 3")
    for reader in (engine, embedded):
        assert rows(reader, "SELECT * FROM v ORDER BY a") == [(1,), (3,)]
    engine.close()
    embedded.close()


def is_refused(engine: Engine, statement: str) -> bool:
    try:
        engine.execute(statement)
    except StatementError:
        return True
    return False


def test_errors_of_other_changes_say_how_tables_change(warehouse: Path, spark: SparkSession) -> None:
    engine = SparkEngine(spark, warehouse, owned=False)
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(StatementError, match=r"does not change t\. What a warehouse has changes by CREATE") as caught:
        engine.execute("ALTER TABLE t ADD COLUMNS (b INT)")
    assert caught.value.position == (1, 13, "t")
    with pytest.raises(StatementError, match=r"writes into no table of a warehouse\. What a warehouse has changes by CREATE"):
        engine.execute("INSERT INTO t TABLE t")
    engine.close()


def test_names_beside_the_warehouse_are_sparks_to_change(warehouse: Path, spark: SparkSession) -> None:
    engine = SparkEngine(spark, warehouse, owned=False)
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("CREATE VIEW v AS SELECT 1 AS a")
    engine.execute("CREATE TEMPORARY VIEW v AS SELECT 2 AS a")
    engine.execute("ALTER VIEW v AS SELECT 3 AS a")
    assert rows(engine, "SELECT * FROM v") == [(3,)]
    engine.execute("CREATE DATABASE IF NOT EXISTS other")
    engine.execute("USE other")
    try:
        engine.execute("CREATE TABLE t USING csv AS SELECT 7 AS a")
        engine.execute("ALTER TABLE t RENAME TO u")
        engine.execute("WITH q AS (SELECT 8 AS a) INSERT INTO u SELECT * FROM q")
        assert rows(engine, "SELECT * FROM u ORDER BY a") == [(7,), (8,)]
    finally:
        engine.execute("DROP DATABASE other CASCADE")
        engine.execute("USE default")
    assert rows(engine, "SELECT * FROM t") == [(1,)]
    engine.close()


@pytest.mark.parametrize("overwrite", [False, True])
def test_frames_are_not_written_behind_the_back_of_the_warehouse(warehouse: Path, spark: SparkSession, overwrite: bool) -> None:
    engine = SparkEngine(spark, warehouse, owned=False)
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(AnalysisException, match="single path"):
        spark.range(5).selectExpr("CAST(id AS INT) AS a").write.insertInto("t", overwrite)
    engine.execute("INSERT INTO t SELECT 2")
    assert sorted(rows(engine, "SELECT * FROM t")) == [(1,), (2,)]
    engine.close()


@lengthy
def test_sessions_of_one_application_see_what_each_other_writes(warehouse: Path, spark: SparkSession) -> None:
    one, other = (SparkEngine(session, warehouse, owned=False) for session in (spark, spark.newSession()))
    one.execute("CREATE TABLE t AS SELECT 1 AS a")
    for value, (writer, reader) in enumerate(((one, other), (other, one), (one, other))):
        assert rows(reader, "SELECT count(*) FROM t") == rows(writer, "SELECT count(*) FROM t") == [(1,)]
        writer.execute(f"INSERT OVERWRITE t SELECT {value}")
        assert rows(reader, "SELECT a FROM t") == [(value,)]
    for engine in (one, other):
        engine.close()


@costly
def test_tables_of_either_engine_are_the_other_ones(warehouse: Path, spark: SparkSession) -> None:
    embedded, other = DuckDBEngine(warehouse), SparkEngine(spark, warehouse, owned=False)
    statement = (
        "CREATE TABLE {} AS SELECT id, CAST(id AS STRING) AS s, array(id) AS a, timestamp_seconds(id) AS t FROM range(3)"
    )
    embedded.execute(statement.format("mine"))
    other.execute(statement.format("yours"))
    other.execute("CREATE VIEW both AS SELECT * FROM mine UNION ALL SELECT * FROM yours")
    for engine in (embedded, other):
        assert sorted(engine.relations()) == ["both", "mine", "yours"]
        found = rows(engine, "SELECT * FROM both ORDER BY id")
        assert found[0::2] == found[1::2] == rows(engine, "SELECT * FROM mine ORDER BY id")
        assert engine.schema("SELECT * FROM yours") == engine.schema("SELECT * FROM mine")
        assert isinstance(engine.scan("SELECT id, s FROM yours"), ParquetScan)
    embedded.execute("INSERT INTO yours SELECT 9, 'x', NULL, NULL")
    other.execute("INSERT INTO mine SELECT 8, 'y', NULL, NULL")
    for engine in (embedded, other):
        assert rows(engine, "SELECT max(id), count(*) FROM both") == [(9, 8)]
    other.execute("DROP TABLE mine")
    assert embedded.relations() == ["both", "yours"]
    embedded.execute("DROP TABLE yours")
    with pytest.raises(StatementError, match="There is no table or view yours"):
        other.execute("SELECT * FROM yours")
    embedded.close()
    other.close()


@costly
def test_a_table_of_another_format_is_sparks_own(warehouse: Path, spark: SparkSession) -> None:
    engine = SparkEngine(spark, warehouse, owned=False)
    assert engine.write_table("lines", "SELECT 1 AS a", replace=False, format="csv") == 1
    try:
        engine.execute("INSERT INTO lines VALUES (2)")
        assert rows(engine, "SELECT sum(a) FROM lines") == [(3,)]
        with pytest.raises(StatementError, match="has a table lines of its own"):
            engine.execute("CREATE TABLE lines AS SELECT 1 AS a")
    finally:
        engine.execute("DROP TABLE lines")
    assert engine.relations() == []
    assert not list(warehouse.glob("tables/[!.]*"))
    embedded = DuckDBEngine(warehouse)
    with pytest.raises(StatementError, match="Tables of the embedded engine are parquet, got csv"):
        embedded.write_table("t", "SELECT 1 AS a", replace=False, format="csv")
    embedded.close()


def test_a_damaged_or_newer_manifest_is_named(engine: Engine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    manifest = warehouse / "tables" / "t" / "_manifest.json"
    values = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**values, "format": 99}))
    with pytest.raises(ModelError, match="newer xpsql"):
        engine.execute("SELECT * FROM t")
    manifest.write_text("{")
    with pytest.raises(ModelError, match=r"_manifest\.json of table t cannot be read"):
        engine.execute("SELECT * FROM t")


@costly
@pytest.mark.parametrize("name", ["a b=50%20", "\u00fc#", "[b]{c,d}", "e*?", "f\\g"])
def test_a_warehouse_may_have_any_letters_in_its_path(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / "e__").mkdir()  # what a pattern would find, too
    engine = SparkEngine(spark, tmp_path / name, owned=False)
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("INSERT INTO t SELECT 2")
    assert rows(engine, "SELECT * FROM t ORDER BY a") == [(1,), (2,)]
    engine.register("v", [Path(file) for file in Tables(tmp_path / name).files("t") or ()])
    assert rows(engine, "SELECT count(*) FROM v") == [(2,)]
    assert {path.name for path in tmp_path.iterdir()} == {"e__", name}
    engine.close()


@costly
def test_times_without_zone_are_the_same_however_they_come_into_a_table(spark: SparkSession, warehouse: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    engine = SparkEngine(spark, warehouse, owned=False)
    query = "SELECT TIMESTAMP_NTZ'2026-03-08 02:30:00' AS t, array(TIMESTAMP_NTZ'2026-03-08 02:30:00') AS `a b`, 'x' AS c"
    engine.execute(f"CREATE TABLE t AS {query}")
    engine.execute(f"INSERT INTO t {query}")
    for reader in (engine, DuckDBEngine(warehouse)):
        found = rows(reader, "SELECT DISTINCT t, element_at(`a b`, 1) FROM t")
        assert found == [(datetime(2026, 3, 8, 2, 30, tzinfo=UTC),) * 2]
    engine.close()


@pytest.mark.parametrize("statement", ["SELECT * FROM t", "SELECT 1"])
def test_a_table_may_go_or_change_while_spark_is_notified(spark: SparkSession, warehouse: Path, statement: str) -> None:
    other = DuckDBEngine(warehouse)
    other.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine = SparkEngine(spark, warehouse, owned=False)
    assert rows(engine, "SELECT * FROM t") == [(1,)]
    linked, once = Tables.linked, iter(["CREATE OR REPLACE TABLE t AS SELECT 3 AS b", "DROP TABLE t"])

    def changed(self: Tables, name: str) -> tuple[str, ...] | None:
        found = linked(self, name)
        if (change := next(once, None)) is not None:
            other.execute("INSERT OVERWRITE t SELECT 1")  # what was found stays for one more change
            other.execute(change)
        return found

    other.execute("CREATE OR REPLACE TABLE t AS SELECT 2 AS a")
    with mock.patch.object(Tables, "linked", changed):
        if statement == "SELECT 1":
            assert rows(engine, statement) == [(1,)]
        else:
            with pytest.raises(StatementError, match="There is no table or view t"):
                engine.execute(statement)
    engine.close()


@costly
def test_a_view_that_cannot_be_read_stops_no_statement_that_does_not_name_it(spark: SparkSession, warehouse: Path) -> None:
    other, engine = DuckDBEngine(warehouse), SparkEngine(spark, warehouse, owned=False)
    for name in ("t", "u"):
        engine.execute(f"CREATE TABLE {name} AS SELECT 1 AS {name}")
    engine.execute("CREATE VIEW v AS SELECT * FROM t")
    assert rows(engine, "SELECT * FROM v") == [(1,)]
    other.execute("CREATE OR REPLACE VIEW v AS SELECT * FROM u")
    other.execute("DROP TABLE u")
    assert rows(engine, "SELECT 1") == [(1,)]
    with pytest.raises(StatementError, match="The view v cannot be read: There is no table or view u"):
        engine.execute("SELECT * FROM v")
    other.execute("CREATE TABLE u AS SELECT 2 AS u")
    assert rows(engine, "SELECT * FROM v") == [(2,)]
    engine.close()


def test_a_file_that_goes_while_a_query_runs_is_reported_as_such(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    engine.register("v", [path])
    path.unlink()
    with pytest.raises(StatementError, match=re.escape(f"{path} is gone: it was deleted")):
        engine.execute("SELECT * FROM v")
