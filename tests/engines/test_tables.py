"""Tables of the warehouse."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xpsql.platform.engines.duckdb import DuckDBEngine
from xpsql.platform.errors import ModelError, NotAvailableError, StatementError

from .rows import rows


def files(warehouse: Path, table: str) -> list[str]:
    return sorted(path.name for path in (warehouse / "tables" / table / "_data").iterdir())


def test_nothing_is_written_before_the_first_table(engine: DuckDBEngine, warehouse: Path) -> None:
    engine.execute("SELECT 1")
    assert engine.relations() == []
    assert not warehouse.exists()


def test_a_table_outlives_the_session(engine: DuckDBEngine, warehouse: Path) -> None:
    assert engine.execute("CREATE TABLE T USING parquet AS SELECT 1 AS a, 'x' AS b") is None
    other = DuckDBEngine(warehouse)
    assert rows(other, "SELECT * FROM default.t") == [(1, "x")]
    other.close()


def test_inserted_rows_come_after_those_there(engine: DuckDBEngine) -> None:
    engine.execute("CREATE TABLE t (a BIGINT, b STRING COMMENT 'text', c DECIMAL, d TIMESTAMP, e ARRAY<INT>)")
    assert rows(engine, "SELECT * FROM t") == []
    engine.execute("INSERT INTO t (b, a) VALUES ('x', 1)")
    engine.execute("INSERT INTO TABLE t SELECT 2, 'y', 3.7, TIMESTAMP'2020-01-01 00:00:00', array(1)")
    assert rows(engine, "SELECT a, b FROM t") == [(1, "x"), (2, "y")]
    described = rows(engine, "DESCRIBE TABLE t")
    assert [kind for _, kind, _ in described] == ["bigint", "string", "decimal(10,0)", "timestamp", "array<int>"]


def test_overwriting_replaces_all_rows_and_keeps_the_columns(engine: DuckDBEngine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1L AS a")
    engine.execute("INSERT OVERWRITE TABLE t VALUES (7), (8)")
    assert rows(engine, "SELECT * FROM t") == [(7,), (8,)]
    assert engine.schema("SELECT * FROM t").types == [pa.int64()]
    engine.execute("CREATE OR REPLACE TABLE t AS SELECT a + 1 AS b FROM t")
    assert rows(engine, "SELECT * FROM t") == [(8,), (9,)]


def test_if_not_exists_leaves_a_table_as_it_is(engine: DuckDBEngine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("CREATE TABLE IF NOT EXISTS t AS SELECT 2 AS a")
    assert rows(engine, "SELECT * FROM t") == [(1,)]
    with pytest.raises(StatementError, match="The table t exists") as caught:
        engine.execute("CREATE TABLE t AS SELECT 2 AS a")
    assert caught.value.position == (1, 14, "t")


def test_a_dropped_table_is_gone(engine: DuckDBEngine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("DROP TABLE t")
    assert not (warehouse / "tables" / "t").exists()
    engine.execute("DROP TABLE IF EXISTS t")
    with pytest.raises(StatementError, match="There is no table t"):
        engine.execute("DROP TABLE t")


def test_tables_are_shown_by_pattern(engine: DuckDBEngine) -> None:
    for name in ("clicks", "users"):
        engine.execute(f"CREATE TABLE {name} AS SELECT 1 AS a")
    engine.execute("CREATE TEMPORARY VIEW clean AS SELECT * FROM clicks")
    assert rows(engine, "SHOW TABLES") == [("", "clean", True), ("default", "clicks", False), ("default", "users", False)]
    assert rows(engine, "SHOW TABLES IN default LIKE 'cl*'") == [("", "clean", True), ("default", "clicks", False)]
    assert rows(engine, "SHOW VIEWS") == [("", "clean", True)]


def test_a_reader_of_the_state_before_goes_on(engine: DuckDBEngine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT id FROM range(500000)")
    scan = engine.scan("SELECT * FROM t")
    assert scan is not None
    engine.execute("INSERT OVERWRITE t SELECT 1")
    assert pq.read_table(list(scan.files)).num_rows == 500_000
    engine.execute("INSERT OVERWRITE t SELECT 2")
    assert not Path(scan.files[0]).exists()
    assert len(files(warehouse, "t")) == 2


def test_rows_that_are_added_leave_the_files_that_others_read(engine: DuckDBEngine) -> None:
    engine.execute("CREATE TABLE t AS SELECT 0 AS a")
    scan = engine.scan("SELECT * FROM t")
    assert scan is not None
    for i in range(1, 5):
        engine.execute(f"INSERT INTO t SELECT {i}")
    assert Path(scan.files[0]).exists()
    assert rows(engine, "SELECT * FROM t") == [(i,) for i in range(5)]


def test_other_programs_read_the_folder_as_it_is(engine: DuckDBEngine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine.execute("INSERT INTO t SELECT 2")
    folder = warehouse / "tables" / "t"
    assert pq.read_table(folder).column("a").to_pylist() == [1, 2]
    engine.execute("INSERT OVERWRITE t SELECT 3")
    assert pq.read_table(folder).column("a").to_pylist() == [3]
    assert rows(engine, f"SELECT * FROM parquet.`{folder}`") == [(3,)]


def test_a_query_that_fails_half_way_leaves_no_table(engine: DuckDBEngine, warehouse: Path) -> None:
    failing = "SELECT CAST(CASE WHEN id = 700000 THEN 'x' ELSE '1' END AS INT) AS a FROM range(1000000)"
    with pytest.raises(StatementError):
        engine.execute(f"CREATE TABLE t AS {failing}")
    assert engine.relations() == []
    engine.execute("CREATE TABLE t AS SELECT 5 AS a")
    with pytest.raises(StatementError):
        engine.execute(f"INSERT OVERWRITE t {failing}")
    assert rows(engine, "SELECT * FROM t") == [(5,)]
    assert not any((warehouse / "tables" / ".drafts").iterdir())


def test_a_stream_becomes_a_table_whole_or_not_at_all(engine: DuckDBEngine) -> None:
    schema = pa.schema([("a", pa.int64())])

    def broken() -> object:
        yield pa.record_batch([[1]], schema=schema)
        raise StatementError("The source ended.")

    with pytest.raises(StatementError, match="The source ended"):
        engine.write_table("t", pa.RecordBatchReader.from_batches(schema, broken()), replace=False)
    assert engine.relations() == []
    engine.write_table("default.t", pa.table({"a": [1, 2]}).to_reader(), replace=False)
    with pytest.raises(StatementError, match="exists"):
        engine.write_table("t", pa.table({"a": [3]}).to_reader(), replace=False)
    engine.write_table("t", pa.table({"a": [3]}).to_reader(), replace=True)
    assert rows(engine, "SELECT * FROM t") == [(3,)]


def test_names_are_whatever_backticks_hold(engine: DuckDBEngine) -> None:
    engine.execute("CREATE TABLE `my t/a.ble` AS SELECT 1 AS `a b`")
    assert rows(engine, "SELECT `a b` FROM `My T/a.ble`") == [(1,)]
    assert engine.relations() == ["my t/a.ble"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE t AS SELECT 1 AS a, 2 AS A", "two columns named a"),
        ("CREATE TABLE t AS SELECT NULL AS a", "NULL without a type"),
        ("CREATE TABLE t (a INT, A STRING)", "listed twice"),
        ("CREATE TABLE t (a INT NOT NULL)", "NOT NULL"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a)", "PARTITIONED BY"),
        ("CREATE TABLE t USING csv AS SELECT 1 AS a", "Parquet"),
        ("CREATE TABLE other.t AS SELECT 1 AS a", "There is no database other"),
        ("INSERT INTO u VALUES (1)", "There is no table or view u. Did you mean"),
        ("INSERT INTO uu VALUES (1, 2)", "the query has 2 columns"),
        ("INSERT INTO uu (b) VALUES (1)", "There is no column of uu named b"),
        ("INSERT INTO vv VALUES (1)", "vv is a view"),
        ("DROP TABLE vv", "Use DROP VIEW"),
        ("DROP VIEW uu", "Use DROP TABLE"),
        ("CREATE TABLE vv AS SELECT 1 AS a", "The view vv exists"),
        ("CREATE VIEW uu AS SELECT 1 AS a", "The table uu exists"),
        ("TRUNCATE TABLE uu", "does not know 'TRUNCATE'"),
    ],
)
def test_statements_that_cannot_run_say_why(engine: DuckDBEngine, statement: str, message: str) -> None:
    engine.execute("CREATE TABLE uu AS SELECT 1 AS a")
    engine.execute("CREATE VIEW vv AS SELECT 1 AS a")
    with pytest.raises(StatementError, match=message) as caught:
        engine.execute(statement)
    assert isinstance(caught.value, NotAvailableError | StatementError)
    assert engine.relations() == ["uu", "vv"]


def test_a_damaged_or_newer_manifest_is_named(engine: DuckDBEngine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    manifest = warehouse / "tables" / "t" / "_manifest.json"
    values = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**values, "format": 99}))
    with pytest.raises(ModelError, match="newer xpsql"):
        engine.execute("SELECT * FROM t")
    manifest.write_text("{")
    with pytest.raises(ModelError, match=r"_manifest\.json of table t cannot be read"):
        engine.execute("SELECT * FROM t")
