"""Partitions of tables, and folders of rows: the same on both engines, and what Spark makes of tables of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cases import costly, costly_after_first
from tests.engines.rows import rows
from xpsql.platform.engines.base import Engine
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.engines.spark.engine import SparkEngine
from xpsql.platform.errors import ModelError, StatementError

DAILY = """
CREATE TABLE {t} (day DATE, x INT, hour INT, s STRING) USING parquet PARTITIONED BY (day, hour);
INSERT INTO {t} PARTITION (day = '2026-11-10', hour = 1) SELECT CAST(id AS INT), concat('s', id) FROM range(3);
INSERT INTO {t} PARTITION (day = DATE'2026-11-10', hour) SELECT 4, 'four', CAST(id AS INT) FROM range(2);
INSERT INTO {t} SELECT 5, 'five', DATE'2026-11-11', NULL UNION ALL SELECT 6, 'six', NULL, 7;
INSERT INTO {t} PARTITION (day = '2026-11-12', hour = 2) (s, x) VALUES ('seven', 7);
INSERT OVERWRITE TABLE {t} PARTITION (day = '2026-11-10', hour = 1) SELECT 8, 'eight';
INSERT OVERWRITE {t} PARTITION (day = '2026-11-12', hour) SELECT 9, 'nine', 3;
INSERT OVERWRITE {t} PARTITION (day = '2026-11-11', hour = NULL) SELECT 1, 'gone' WHERE false
"""


def reported(engine: Engine, table: str) -> list[object]:
    """Return what a table tells after it was filled, and after parts of it were overwritten."""
    states: list[object] = []
    for number, statement in enumerate(DAILY.format(t=table).split(";")):
        engine.execute(statement)
        if number in (4, 7):
            found = engine.execute(f"SELECT * FROM {table}")
            assert found is not None
            partitions = set(rows(engine, f"SHOW PARTITIONS {table}")) - {("day=2026-11-11/hour=__HIVE_DEFAULT_PARTITION__",)}
            states.append((found.column_names, sorted(found.to_pylist(), key=str), partitions))
    return states


@costly
def test_partitions_are_those_of_a_table_of_spark(spark: SparkSession, warehouse: Path) -> None:
    engine, embedded = SparkEngine(spark, warehouse / "spark", owned=False), DuckDBEngine(warehouse / "embedded")
    engine.execute("CREATE DATABASE IF NOT EXISTS other")
    engine.execute("DROP TABLE IF EXISTS other.daily")
    expected = reported(engine, "other.daily")
    assert reported(engine, "daily") == expected
    assert reported(embedded, "daily") == expected
    engine.execute("DROP TABLE other.daily")
    engine.close()
    embedded.close()


@costly_after_first
def test_a_partitioned_table_of_a_query_is_read_in_place_and_by_the_other_engine(
    opened: Callable[[], Engine], warehouse: Path
) -> None:
    engine, other = opened(), DuckDBEngine(warehouse)
    engine.execute("CREATE TABLE t PARTITIONED BY (p) AS SELECT id % 2 AS p, id AS x FROM range(4)")
    for reader in (engine, other):
        assert sorted(rows(reader, "SELECT * FROM t")) == [(0, 0), (1, 1), (2, 0), (3, 1)]
        assert rows(reader, "SHOW PARTITIONS t") == [("p=0",), ("p=1",)]
    assert isinstance(other.scan("SELECT x, p FROM t WHERE p = 1"), ParquetScan)
    other.execute("INSERT OVERWRITE t PARTITION (p = 1) SELECT 9")
    assert sorted(rows(engine, "SELECT * FROM t")) == [(0, 0), (2, 0), (9, 1)]
    other.close()


def test_rows_of_many_partitions_keep_their_order(engine: DuckDBEngine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t PARTITIONED BY (p) AS SELECT id AS x, id % 7 AS p FROM range(300000)")
    assert len(list((warehouse / "tables" / "t").glob("*.parquet"))) == 7
    kept = "SELECT count(*) FROM (SELECT x, lag(x) OVER (PARTITION BY p ORDER BY x) AS before FROM t) WHERE x - before <> 7"
    assert rows(engine, kept) == [(0,)]
    found = rows(engine, "SELECT x FROM t")
    assert found == [(x,) for p in range(7) for x in range(p, 300000, 7)]


WRONG = [
    ("CREATE TABLE u (a INT) PARTITIONED BY (a)", "names all columns"),
    ("CREATE TABLE u (a INT, b INT) PARTITIONED BY (c)", "There is no column of u named c"),
    ("CREATE TABLE u (a INT, b INT) PARTITIONED BY (b, B)", "names a column twice"),
    ("CREATE TABLE u (a INT, b ARRAY<INT>) PARTITIONED BY (b)", "by which no table is partitioned"),
    ("INSERT INTO t PARTITION (p = 1) SELECT 1", "partitioned by p, q; PARTITION has p"),
    ("INSERT INTO t PARTITION (p = 1, q = 2, p = 3) SELECT 1", "PARTITION names p twice. Leave one out"),
    ("INSERT INTO t (x, X, p) SELECT 1, 2, 3", "The list of columns of t names x twice. Leave one out"),
    ("INSERT INTO t PARTITION (p, q = 1) SELECT 1, 2", "before those without one"),
    ("INSERT INTO t PARTITION (p = 1, q = 'x') SELECT 1", "The value 'x' is no INT|cannot be cast"),
    ("INSERT INTO t PARTITION (p = 1, q = 2) SELECT 1, 2", "takes x here, the query has 2 columns"),
    ("INSERT INTO t PARTITION (p = 1, q = 2) (x, p) SELECT 1, 2", "PARTITION gives p its value"),
    ("INSERT INTO plain PARTITION (x = 1) SELECT 1", "plain has no partitions"),
    ("SHOW PARTITIONS plain", "plain has no partitions"),
]


@costly_after_first
def test_what_is_wrong_with_partitions_is_reported_before_anything_is_written(opened: Callable[[], Engine]) -> None:
    engine = opened()
    engine.execute("CREATE TABLE t (x INT) PARTITIONED BY (p INT, q INT)")
    engine.execute("CREATE TABLE plain (x INT, y INT)")
    for statement, message in WRONG:
        with pytest.raises(StatementError, match=message):
            engine.execute(statement)
    assert engine.relations() == ["plain", "t"]
    assert rows(engine, "SELECT * FROM t") == []


def test_a_table_of_a_newer_format_is_refused(engine: DuckDBEngine, warehouse: Path) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS a")
    manifest = warehouse / "tables" / "t" / "_manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 3'))
    with pytest.raises(ModelError, match="newer xpsql"):
        engine.execute("SELECT * FROM t")


@costly_after_first
@pytest.mark.parametrize("how", ["parquet", "csv", "json"])
def test_a_folder_of_rows_reads_as_the_one_that_spark_writes(
    spark_engine: SparkEngine, engine: DuckDBEngine, tmp_path: Path, how: str
) -> None:
    options = "OPTIONS (header 'true', sep ';')" if how == "csv" else ""
    query = """SELECT * FROM VALUES (1, 2.5D, 'a;"b', DATE'2026-11-10', TIMESTAMP'2026-11-10 01:02:03.5', true, 1.20BD),
        (NULL, NULL, '', NULL, NULL, NULL, NULL), (3, 1e10D, 'plain', NULL, NULL, false, 3BD) AS t(a, b, c, d, e, f, g)"""
    columns = "a INT, b DOUBLE, c STRING, d DATE, e TIMESTAMP, f BOOLEAN, g DECIMAL(4, 2)"
    found = []
    for writer in (spark_engine, engine):
        folder = tmp_path / writer.name
        writer.execute("CREATE OR REPLACE TEMPORARY VIEW v AS " + query)
        for _ in range(2):
            writer.execute(f"INSERT OVERWRITE DIRECTORY '{folder}' USING {how} {options} SELECT * FROM v")
        given = (options[:-1] + ", " if options else "OPTIONS (") + f"path '{folder}')"
        for reader in (spark_engine, engine):
            reader.execute(f"CREATE OR REPLACE TEMPORARY VIEW w ({columns}) USING {how} {given}")
            found.append(sorted(rows(reader, "SELECT * FROM w"), key=str))
    assert found == [found[0]] * 4
    assert [row[0] for row in found[0]] == [1, 3, None]


def test_a_folder_with_something_else_stays(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("kept")
    for statement, message in (
        (f"INSERT OVERWRITE DIRECTORY '{tmp_path}/mine' SELECT 1 AS a", "has more than files of rows"),
        (f"INSERT OVERWRITE DIRECTORY '{tmp_path}/x' USING csv OPTIONS (heder true) SELECT 1 AS a", "no option 'heder'"),
        (f"INSERT OVERWRITE DIRECTORY '{tmp_path}/x' SELECT 1 AS a FROM nowhere", "no table or view nowhere"),
        (f"INSERT OVERWRITE DIRECTORY '{tmp_path}/x' USING csv OPTIONS (header 'x') SELECT 1 AS a", "expects true or false"),
        (
            f"INSERT OVERWRITE DIRECTORY '{tmp_path}/x' USING csv OPTIONS (sep '') SELECT 1 AS a",
            "one character or more",
        ),
        ("INSERT OVERWRITE DIRECTORY USING json SELECT 1 AS a", "Expected the folder"),
    ):
        with pytest.raises(StatementError, match=message):
            engine.execute(statement)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_made_is_named_as_it_was_given(engine: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(
        ModelError, match=r"^Cannot write \S+/file/rows: Not a directory\. Check the disk and the folder above it"
    ):
        engine.execute(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/file/rows' SELECT 1 AS a")
