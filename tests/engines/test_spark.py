"""The Spark engine's own ways: what it reads in place, what it stages and how, and its results."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.cases import costly, costly_after_first, lengthy
from tests.sparks import LIMITS_GROUPS, SPARK_3, needs_spark_4_1
from xpsql.platform.engines.base import Scan, Staged
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.engines.spark.engine import SparkEngine
from xpsql.platform.engines.spark.frames import configured
from xpsql.platform.errors import ModelError, StatementError
from xpsql.platform.models.exports import write_csv

ROWS = pa.table(
    {
        "day": pa.array([1, None, 3, 4], pa.int32()),
        "price": pa.array([1.5, float("nan"), None, -2.0]),
        "user": pa.array(["a", "b", None, "d"]),
        "seen": [datetime.date(2024, 1, n) for n in (1, 2, 3, 4)],
        "clicked": pa.array([True, False, None, True]),
        "tags": pa.array([["x"], [], None, ["y", "z"]]),
        "a b": pa.array([1, 2, 3, 4], pa.int64()),
    }
)


@pytest.fixture
def engine(spark_engine: SparkEngine) -> SparkEngine:
    return spark_engine


@pytest.fixture
def log(tmp_path: Path) -> str:
    """The name of a folder of two files, as a query has it."""
    folder = tmp_path / "a log"
    folder.mkdir()
    pq.write_table(ROWS.slice(0, 2), folder / "one.parquet")
    pq.write_table(ROWS.slice(2), folder / "two.parquet")
    return f"parquet.`{folder}`"


def scanned(scan: Scan) -> pa.Table:
    """Read a scan as workers do."""
    pieces = [pq.read_table(file, columns=list(scan.needed)) for file in scan.files]
    if not scan.exact:
        project = pickle.loads(pickle.dumps(scan.project))  # workers get it from the driver
        return pa.concat_tables([project(piece) for piece in pieces])
    return pa.concat_tables(pieces).select(list(scan.columns.values())).rename_columns(list(scan.columns))


@lengthy
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM {}",
        "SELECT user AS who, `a b`, tags, `a b` AS again FROM {}",
        "SELECT t.DAY, User FROM {} t",
        "SELECT x + 0 AS x FROM (SELECT 1 AS x) WHERE false UNION ALL SELECT `a b` FROM {}",
        "WITH w AS (SELECT `a b` AS n, user FROM {}) SELECT user, n FROM w",
        "SELECT n FROM (SELECT day AS n FROM {}) WHERE n >= 3",
    ],
)
def test_columns_of_parquet_files_are_read_in_place(engine: SparkEngine, log: str, query: str) -> None:
    scan = engine.scan(query.format(log))
    assert isinstance(scan, ParquetScan)
    wanted = engine.execute(query.format(log))
    assert wanted is not None
    assert scan.schema == wanted.schema == engine.schema(query.format(log))
    assert sorted(map(str, scanned(scan).to_pylist())) == sorted(map(str, wanted.to_pylist()))
    assert [Path(file).name for file in scan.files] == ["one.parquet", "two.parquet"]


@costly_after_first
@pytest.mark.parametrize(
    "condition",
    [
        "day > 1",
        "3 <= t.day",
        "day <> -1 AND NOT day = 4",
        "price > 1",
        "price <= 1.5",
        "price >= -3",
        "price <> 1.25 AND `a b` <> 4",
        "user = 'b' OR user IS NULL",
        "user IN ('a', 'd', 'x')",
        "NOT user IN ('a', 'd')",
        "seen >= '2024-01-02' AND seen < DATE '2024-01-04'",
        "(day BETWEEN 1 AND 3) AND seen IS NOT NULL",
        "clicked",
        "NOT clicked",
        "clicked = false",
    ],
)
def test_simple_filters_of_the_reader_keep_the_rows_that_spark_keeps(engine: SparkEngine, log: str, condition: str) -> None:
    query = f"SELECT `a b` AS n, day FROM {log} t WHERE {condition}"
    scan = engine.scan(query)
    assert isinstance(scan, ParquetScan)
    assert not scan.exact
    wanted = engine.execute(f"{query} ORDER BY n")
    assert wanted is not None
    assert 0 < len(wanted) < 4
    assert scanned(scan).equals(wanted)


NEW_YORK = "America/New_York"


@lengthy
@pytest.mark.parametrize(
    ("zone", "condition"),
    [
        ("UTC", "at >= '2024-03-10 02:30:00'"),
        ("UTC", "at = TIMESTAMP'2024-03-09 23:30:00'"),
        ("UTC", "CAST(at AS DATE) = '2024-03-10'"),
        (NEW_YORK, "at < '2024-03-10 01:30:00'"),
        (NEW_YORK, "at >= DATE'2024-03-10' AND to_date(at) < '2024-03-11'"),
        (NEW_YORK, "date(at) <> '2024-03-09'"),
        (NEW_YORK, "NOT at > TIMESTAMP'2024-03-10 03:00:00'"),
    ],
)
def test_filters_by_times_keep_the_rows_that_spark_keeps_in_the_zone_of_its_session(
    engine: SparkEngine, tmp_path: Path, zone: str, condition: str
) -> None:
    hours = np.arange(0, 72) * 1_800_000_000 + 1_709_942_400_000_000  # half hours, from 2024-03-09 on
    pq.write_table(
        pa.table({"n": np.arange(72), "at": pa.array(hours, pa.timestamp("us", "UTC"))}),
        tmp_path / "times.parquet",
        row_group_size=6,
    )
    with configured(engine.spark, {"spark.sql.session.timeZone": zone}):
        query = f"SELECT n, at FROM parquet.`{tmp_path / 'times.parquet'}` WHERE {condition}"
        scan = engine.scan(query)
        assert isinstance(scan, ParquetScan)
        wanted = engine.execute(f"{query} ORDER BY n")
    assert wanted is not None
    assert 0 < len(wanted) < 72
    found = [table for split in scan.splits() for table in scan.read(split, ["n", "at"], 100)]
    assert pa.concat_tables(found).equals(wanted)
    assert len(scan.splits()) < 12


@pytest.mark.parametrize("condition", ["at > '2024-11-03 01:30:00'", "at > '2024-03-10 02:30:00'", "at > '1850-01-01'"])
def test_times_that_a_zone_has_twice_or_not_at_all_are_left_to_spark(
    engine: SparkEngine, tmp_path: Path, condition: str
) -> None:
    pq.write_table(pa.table({"at": pa.array([0], pa.timestamp("us", "UTC"))}), tmp_path / "times.parquet")
    with configured(engine.spark, {"spark.sql.session.timeZone": NEW_YORK}):
        scan = engine.scan(f"SELECT at FROM parquet.`{tmp_path / 'times.parquet'}` WHERE {condition}")
    assert isinstance(scan, Staged)
    assert "its WHERE" in scan.reason


@lengthy
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT day + 1 AS next FROM {}", "more than columns"),
        ("SELECT day FROM {} ORDER BY day", "more than columns"),
        ("SELECT DISTINCT day FROM {}", "more than columns"),
        ("SELECT day FROM {} LIMIT 2", "more than columns"),
        ("SELECT a.day FROM {} a JOIN {} b ON a.day = b.day", "more than columns"),
        ("SELECT CAST(day AS BIGINT) AS day FROM {}", "more than columns"),
        ("SELECT id FROM range(3)", "more than columns"),
        ("SELECT day, day FROM {}", "one name"),
        ("SELECT day FROM {} WHERE user LIKE 'a%'", "its WHERE"),
        ("SELECT day FROM {} WHERE day = '1'", "its WHERE"),
        ("SELECT day FROM {} WHERE day < 1.5", "its WHERE"),
        ("SELECT day FROM {} WHERE day = price", "its WHERE"),
        ("SELECT day FROM {} WHERE day IN (SELECT 1)", "its WHERE"),
    ],
)
def test_other_queries_are_staged_and_the_reason_is_reported(engine: SparkEngine, log: str, query: str, reason: str) -> None:
    text = query.format(log, log)
    scan = engine.scan(text)
    assert isinstance(scan, Staged)
    assert reason in scan.reason


def test_files_in_other_types_than_the_query_sees_are_staged(engine: SparkEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1], pa.uint32())}), tmp_path / "n.parquet")
    assert engine.schema(f"SELECT n FROM parquet.`{tmp_path}`").types == [pa.int64()]
    scan = engine.scan(f"SELECT n FROM parquet.`{tmp_path}`")
    assert isinstance(scan, Staged)
    assert scan.reason == "the files have its columns in other types"


def test_a_frame_with_a_name_is_read_in_place_where_it_is_a_scan(spark: SparkSession, engine: SparkEngine, log: str) -> None:
    spark.sql(f"SELECT user AS who FROM {log}").createOrReplaceTempView("plain")
    spark.sql(f"SELECT upper(user) AS who FROM {log}").createOrReplaceTempView("made")
    assert isinstance(engine.scan("SELECT who FROM plain"), ParquetScan)
    assert isinstance(engine.scan("SELECT who FROM made"), Staged)


def test_partitions_are_reported_as_the_reason_to_stage(engine: SparkEngine, tmp_path: Path) -> None:
    engine.spark.sql("SELECT id, id % 2 AS day FROM range(4)").write.partitionBy("day").parquet(str(tmp_path / "log"))
    found = engine.scan(f"SELECT id, day FROM parquet.`{tmp_path / 'log'}`")
    assert isinstance(found, Staged)
    assert "partitions" in (found.reason or "")


def test_a_column_of_files_that_their_folders_name_too_has_the_value_of_the_folder(engine: SparkEngine, tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / "log" / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"day": pa.array([9], pa.int32()), "n": [day]}), tmp_path / f"log/day={day}/rows.parquet")
    log = f"parquet.`{tmp_path}/log`"
    wanted = engine.execute(f"SELECT n FROM {log} WHERE day = 2")
    assert wanted is not None
    assert wanted.to_pylist() == [{"n": 2}]
    for query in (f"SELECT * FROM {log}", f"SELECT n FROM {log} WHERE day = 2"):
        found = engine.scan(query)
        assert isinstance(found, Staged)
        assert "partitions" in found.reason


def test_a_query_is_staged_in_its_order_with_row_groups_of_one_size(engine: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT id % 7 AS part, id, timestamp_seconds(id) AS at FROM range(260000) ORDER BY part, id DESC"
    scan = engine.stage(query, tmp_path / "staged")
    assert scan.schema == engine.schema(query)
    found = scanned(scan)
    assert found.schema.types == scan.schema.types
    assert found["id"].to_pylist() == sorted(range(260_000), key=lambda n: (n % 7, -n))
    if not LIMITS_GROUPS:
        return
    files = [pq.ParquetFile(file).metadata for file in scan.files]
    groups = [[file.row_group(i).num_rows for i in range(file.num_row_groups)] for file in files]
    assert max(max(sizes) for sizes in groups) == 122_880
    assert all(size == 122_880 for sizes in groups for size in sizes[:-1])


def test_a_query_without_rows_is_staged_as_none(engine: SparkEngine, tmp_path: Path) -> None:
    scan = engine.stage("SELECT id FROM range(10) WHERE id > 10", tmp_path / "staged")
    assert scanned(scan).num_rows == 0


def test_results_have_the_types_that_the_schema_tells(engine: SparkEngine) -> None:
    query = (
        "SELECT 1Y AS a, 2S AS b, 3 AS c, 4L AS d, 1.5F AS e, 1.5D AS f, 1.50BD AS g, 'x' AS h, true AS i, X'00' AS j, "
        "DATE '2024-01-01' AS k, TIMESTAMP '2024-01-01 00:00:00' AS l, TIMESTAMP_NTZ '2024-01-01 00:00:00' AS m, "
        "array(1, NULL) AS n, map('a', 1D) AS o, named_struct('x', 1) AS p, NULL AS q, 'y' AS h"
    )
    table = engine.execute(query)
    assert table is not None
    assert table.schema == engine.schema(query)
    instant = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    row: list[Any] = [column[0].as_py() for column in table.columns]
    assert row[11] == row[12] == instant
    assert row[13:] == [[1, None], [("a", 1.0)], {"x": 1}, None, "y"]


@costly
def test_a_format_that_spark_does_not_have_is_named(engine: SparkEngine) -> None:
    with pytest.raises(StatementError, match=r"Spark has no format nope\."):
        engine.write_table("t", "SELECT 1 AS a", replace=False, format="nope")


@pytest.mark.parametrize("words", ["DESCRIBE", "desc table"])
def test_files_are_described_as_on_the_embedded_engine(engine: SparkEngine, words: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "f.parquet")
    described = engine.execute(f"{words} parquet.`{tmp_path}/f.parquet`")
    assert described is not None
    assert described["col_name"].to_pylist() == ["a", "b"]
    with pytest.raises(StatementError, match="/nowhere does not exist"):
        engine.execute(f"{words} parquet.`/nowhere`")


def test_a_table_of_the_catalog_is_replaced_only_when_asked(engine: SparkEngine) -> None:
    engine.write_table("catalogued", "SELECT 1 AS a", replace=False, format="orc")
    try:
        with pytest.raises(StatementError, match=r"exists\. Drop it, use WITH \(replace = true\), or choose another"):
            engine.write_table("catalogued", "SELECT 2 AS a", replace=False, format="orc")
        engine.write_table("catalogued", "SELECT 2 AS a", replace=True, format="orc")
        assert engine.spark.table("catalogued").collect() == [(2,)]
    finally:
        engine.spark.sql("DROP TABLE catalogued")


def test_a_file_that_a_task_cannot_write_is_no_error_of_the_statement(engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^Cannot write .*/absent: Not? .* then run the statement again\.$"):
        engine.write_files("SELECT 1 AS a", tmp_path, ".csv", lambda path, rows: write_csv(path / "absent", rows))
    assert list(tmp_path.glob("warehouse/.scratch/*")) == []


@costly
def test_a_stream_has_the_rows_of_all_partitions_in_order(engine: SparkEngine) -> None:
    reader = engine.reader("SELECT id AS x, id AS x FROM range(0, 30000, 1, 3)")
    assert reader.schema == pa.schema([("x", pa.int64()), ("x", pa.int64())])
    assert reader.read_all().column(1).to_pylist() == list(range(30_000))


@lengthy
@pytest.mark.parametrize(
    ("statement", "message", "position"),
    [
        ("SELECT\n  nope FROM range(3)", "There is no column nope. Valid: id.", (2, 3, "nope")),
        ("SELECT '😀', r.nope FROM range(3) r", "There is no column r.nope.", (1, 13, "r.nope")),
        ("SELECT * FROM\nnowhere", "There is no table or view nowhere.", (2, 1, "nowhere")),
        ("SELECT * FROM parquet.`/nowhere`", "The path file:/nowhere does not exist.", None),
        ("SELECT * FROM delta.`/x`", "Spark has no format delta. Start it with --conf spark.jars.packages=io.delta:", None),
        (
            "CREATE TEMPORARY VIEW v USING delta OPTIONS (path '/x')",
            "Spark has no format delta. Start it with --conf spark.jars.packages=io.delta:",
            None,
        ),
        (
            "SELECT * FROM parquet.`s3a://b/x`",
            "Spark has no file system for s3a://. Start it with --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:",
            None,
        ),
        ("SELECT * FROM parquet.`s3://b/x`", "Spark has no file system for s3://. Write s3a:// instead", None),
        ("SELECT nothing(1)", "There is no function nothing.", (1, 8, "nothing(1)")),
        (
            "SELECT * FROM read_json('x')",
            "There is no function read_json. Read files as a table: json.`path`",
            (1, 15, "read_json('x')"),
        ),
        ("SELECT * FRM range(3)", "Syntax error at or near 'range'", (1, 14, "range(3)")),
        ("SELECT 1/0", "The query failed: Division by zero.", (1, 8, "1/0")),
        ("SELECT CAST('x' AS INT)", "The value 'x' is no INT.", (1, 8, "CAST('x' AS INT)")),
        ("SELECT array() AS v", "Column v is an empty array() without a type; CAST(array() AS ARRAY<INT>) has one.", None),
        ("SELECT struct(map()) AS v", "Column v is an empty map() without a type", None),
        ("SELECT raise_error('enough')", "The query failed: enough.", None),
        ("SELECT explode('x')", "explode makes rows of an array or a map, and x is of type string.", (1, 8, "explode('x')")),
        ("SELECT 1 + explode(array(id)) FROM range(2)", "explode makes rows, so it must be a column", (1, 12, "explode")),
        ("SELECT id FROM range(2) WHERE explode(array(id)) = 1", "makes rows, so it must be a column", (1, 31, "explode")),
        ("SELECT inline(array(id)) FROM range(2)", "inline takes an array of structs.", (1, 8, "inline(array(id))")),
        ("SELECT inline(array(struct(id, 1))) AS (b) FROM range(2)", "makes 2 columns, got 1 names", (1, 8, "inline")),
        ("SELECT inline(usr) FROM range(2)", "There is no column usr. Valid: id.", (1, 15, "usr")),
        ("SELECT explode(array(1), array(id)) FROM range(2)", "takes one array, got 2 arguments. Put another into", None),
        ("SELECT id, count(*) FROM range(2) GROUP BY id % 2", "Column id is neither grouped", (1, 8, "id")),
    ],
)
def test_errors_have_a_place_and_no_stack_trace(
    engine: SparkEngine, statement: str, message: str, position: tuple[int, int, str] | None
) -> None:
    with pytest.raises(StatementError) as raised:
        engine.execute(statement)
    assert raised.value.message.startswith(message) or message in raised.value.message
    assert position is None or raised.value.position == position or (SPARK_3 and raised.value.position is None)
    assert "\n" not in raised.value.message
    assert "SQLSTATE" not in raised.value.message


@costly
def test_what_a_function_of_the_user_raises_reaches_the_user(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    spark.udf.register("fails", lambda n: {"a": 1}[f"no {n}"], "int")
    for run in (engine.execute, lambda q: engine.reader(q).read_all(), lambda q: engine.stage(q, tmp_path / "staged")):
        with pytest.raises(StatementError, match="a Python function raised KeyError: 'no 0'"):
            run("SELECT fails(id) AS n FROM range(1)")


@needs_spark_4_1
def test_files_of_another_format_are_reported(engine: SparkEngine, tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"user,ad,click")
    with pytest.raises(StatementError, match=r"The files of parquet.`...` cannot be read: they are not parquet"):
        engine.schema(f"SELECT * FROM parquet.`{tmp_path / 'log.parquet'}`")


def test_only_queries_are_asked_for_their_columns(engine: SparkEngine) -> None:
    for text in ("CREATE TABLE t (n INT)", "WITH w AS (SELECT 1) INSERT INTO t SELECT * FROM w", ""):
        with pytest.raises(StatementError, match="Expected a query"):
            engine.schema(text)
    assert engine.relations() == []
    assert engine.schema("SELECT insert FROM (SELECT '(' AS insert)").names == ["insert"]
