"""Queries give Spark's values and types on the embedded engine, line by line of the table that a live Spark wrote."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.cases import lengthy
from tests.parity.table import SYNTAX, TABLE, called, canonical, expressions, query, sample
from xpsql.platform.engines.duckdb.connection import connect
from xpsql.platform.engines.duckdb.results import simplified
from xpsql.platform.engines.duckdb.translation.functions import FUNCTIONS
from xpsql.platform.engines.duckdb.translation.transpile import translate
from xpsql.platform.engines.spark_sql.dialect import parse
from xpsql.platform.errors import StatementError
from xpsql.platform.spark_types import spark_type
from xpsql.platform.udf import register

Row = dict[str, Any]
ROWS: list[Row] = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
ANSWERS = [row for row in ROWS if "error" not in row]
FAILURES = [row for row in ROWS if "error" in row]
LIVE = os.environ.get("XPSQL_LIVE_SPARK") == "1" and shutil.which("java") is not None


def expression(row: Row) -> str:
    return str(row["expression"])


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(1) as connection:
        connection.execute(f"CREATE TABLE sample AS {translate(parse(sample()), connection)}")
        yield connection


def run(connection: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
    sql = translate(parse(text), connection)
    return connection.sql(simplified(connection, sql)).to_arrow_table()


@lengthy
@pytest.mark.parametrize("row", ANSWERS, ids=expression)
def test_values_and_types_are_those_of_spark(connection: duckdb.DuckDBPyConnection, row: Row) -> None:
    answer = run(connection, query(row["expression"]))
    assert [spark_type(field.type) for field in answer.schema] == row["types"]
    assert canonical(answer) == row["rows"]


@pytest.mark.parametrize("row", FAILURES, ids=expression)
def test_what_spark_refuses_is_refused(connection: duckdb.DuckDBPyConnection, row: Row) -> None:
    with pytest.raises((StatementError, duckdb.Error)):
        run(connection, query(row["expression"]))


def test_the_table_answers_the_lines_in_their_order() -> None:
    assert [expression(row) for row in ROWS] == expressions()
    assert len(ANSWERS) >= 150


def test_the_table_holds_every_function_that_is_translated_and_no_other() -> None:
    assert set().union(*(called(expression(row)) for row in ANSWERS)) | SYNTAX == FUNCTIONS | SYNTAX


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1,\n  colect_list(i) FROM sample", r"no function colect_list.*collect_list.*line 2, column 3"),
        ("SELECT row_numbr() OVER (ORDER BY i) FROM sample", r"no function row_numbr.*row_number.*line 1, column 8"),
        ("SELECT * FROM sample LATERAL VIEW explod(a) t AS e", r"no function explod.*explode.*line 1, column 35"),
        ("SELECT soundex(s) FROM sample", r"no function soundex.*line 1, column 8"),
        ("SELECT list_value(1) FROM sample", r"no function list_value"),
        ("SELECT id FROM read_csv('x')", r"no function read_csv\. Read files as a table: csv\.`path`"),
        ("SELECT * FROM parquet_scan('x')", r"no function parquet_scan\..* CREATE TEMPORARY VIEW v USING parquet"),
    ],
)
def test_a_function_outside_the_table_is_refused_by_name(
    connection: duckdb.DuckDBPyConnection, text: str, message: str
) -> None:
    with pytest.raises(StatementError, match=message):
        run(connection, text)


def test_windows_that_overlap_in_a_filter_are_refused_with_the_remedy(connection: duckdb.DuckDBPyConnection) -> None:
    windows, late = "window(ts, '10 minutes', '5 minutes')", "TIMESTAMP'2000-01-01'"
    with pytest.raises(StatementError, match=r"Filter them in a SELECT around it.*line 1, column 29"):
        run(connection, f"SELECT id FROM sample WHERE {windows}.start > {late}")
    around = f"SELECT id FROM (SELECT id, {windows} AS w FROM sample) WHERE w.start > {late}"
    assert run(connection, f"{around} ORDER BY id")["id"].to_pylist() == [1, 1, 3, 3], "as Spark gives both"


def test_hints_change_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    assert run(connection, "SELECT /*+ BROADCAST(sample) */ count(*) AS n FROM sample").to_pylist() == [{"n": 5}]


def test_nested_functions_of_dates_stay_short() -> None:
    with duckdb.connect() as connection:
        register(connection)
        text = "dt"
        for _ in range(8):
            text = f"date_add(last_day(trunc({text}, 'month')), 1)"
        sql = translate(parse(f"SELECT {text} FROM (SELECT DATE'2013-01-05' AS dt)"), connection)
        assert connection.sql(sql).fetchall()[0][0].isoformat() == "2013-09-01"


@pytest.mark.skipif(not LIVE, reason="asks a live Spark; set XPSQL_LIVE_SPARK=1 where Java and pyspark are")
def test_a_live_spark_gives_the_answers_of_the_table() -> None:
    pytest.importorskip("pyspark")
    from tests.parity.generate import answer, local_spark

    spark = local_spark()
    try:
        spark.sql(sample()).createOrReplaceTempView("sample")
        chosen = [row for row in ROWS[::7] if "uuid" not in row["expression"]]
        assert [{"expression": row["expression"], **answer(spark, row["expression"])} for row in chosen] == chosen
    finally:
        spark.stop()
