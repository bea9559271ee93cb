"""Queries as the flow and the session use them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cases import lengthy
from tests.engines.rows import rows
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.duckdb.results import simplified
from xpsql.platform.errors import StatementError

TYPES = """
SELECT 1 AS i, 2L AS l, 1.5D AS d, CAST(1 AS FLOAT) AS f, 1.50 AS c, 'x' AS s, true AS b, DATE'2020-01-01' AS day,
  TIMESTAMP'2020-01-01 10:00:00' AS t, array(1, 2) AS a, map('k', 1) AS m, named_struct('x', 1, 'y', 'z') AS st
"""


def test_schemas_are_in_spark_s_types(engine: DuckDBEngine) -> None:
    schema = engine.schema(TYPES)
    types = dict(zip(schema.names, schema.types, strict=True))
    assert types["i"] == pa.int32()
    assert types["l"] == pa.int64()
    assert types["d"] == pa.float64()
    assert types["f"] == pa.float32()
    assert types["c"] == pa.decimal128(3, 2)
    assert types["s"] == pa.string()
    assert types["b"] == pa.bool_()
    assert types["day"] == pa.date32()
    assert types["t"] == pa.timestamp("us", tz="UTC")
    assert types["a"] == pa.list_(pa.int32())
    assert types["m"] == pa.map_(pa.string(), pa.int32())
    assert types["st"] == pa.struct([("x", pa.int32()), ("y", pa.string())])
    assert engine.reader(TYPES).read_all().schema == schema


def test_whole_decimals_stay_decimals_and_sums_of_integers_are_bigint(engine: DuckDBEngine) -> None:
    whole = pa.decimal128(38, 0)
    query = "SELECT sum(id) AS s, array(sum(id)) AS a, CAST(7 AS DECIMAL(38, 0)) AS d, array(CAST(7 AS DECIMAL(38, 0))) AS e"
    assert engine.schema(f"{query} FROM range(3)").types == [pa.int64(), pa.list_(pa.int64()), whole, pa.list_(whole)]
    engine.execute(f"CREATE TABLE t AS {query} FROM range(3)")
    assert rows(engine, "SELECT s, d, sum(d), d + s FROM t GROUP BY s, d") == [(3, 7, 7, 10)]
    assert engine.schema("SELECT * FROM t").types == [pa.int64(), pa.list_(pa.int64()), whole, pa.list_(whole)]


def test_integers_of_128_bits_are_bigint_wherever_they_stand() -> None:
    query = (
        """SELECT 1::HUGEINT AS a, [1::UHUGEINT] AS b, {'HUGEINT': 1::HUGEINT, 'x"HUGEINT': 2} AS c, 1::DECIMAL(38, 0) AS d"""
    )
    with duckdb.connect() as connection:
        table = connection.sql(simplified(connection, query)).to_arrow_table()
    fields = pa.struct([("HUGEINT", pa.int64()), ('x"HUGEINT', pa.int32())])
    assert table.schema.types == [pa.int64(), pa.list_(pa.int64()), fields, pa.decimal128(38, 0)]


@lengthy
@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("CAST(k AS STRING)", "k"),
        ("t.K::double", "K"),
        ("try_cast((k) AS STRING)", "k"),
        ("string(k)", "k"),
        ("CAST(k + 1 AS STRING)", "CAST((k + 1) AS STRING)"),
        ("CAST(CAST(k AS STRING) AS INT)", "CAST(CAST(k AS STRING) AS INT)"),
        ("CAST(1 AS STRING)", "CAST(1 AS STRING)"),
        ("t.st.x", "x"),
        ("CAST(st.x AS STRING)", "CAST(st.x AS STRING)"),
        ("T.ST.x::string", "CAST(ST.x AS STRING)"),
        ("string(t.st.x)", "st.x"),
        ("max(t.st.x)", "max(st.x)"),
        ("t.st.x + (t.k - 1)", "(st.x + (k - 1))"),
        ("(SELECT max(k) FROM t)", "scalarsubquery()"),
        ("((SELECT 1))", "scalarsubquery()"),
        ("coalesce((SELECT max(k) FROM t), 2)", "coalesce(scalarsubquery(), 2)"),
        ("EXISTS (SELECT k FROM t)", "exists()"),
        ("k IN (SELECT k FROM t)", "(k IN (listquery()))"),
        ("IF(k > 1, 1, 0)", "(IF((k > 1), 1, 0))"),
        ("sum(IF(k > 1, -1, -k)) + 1", "(sum((IF((k > 1), -1, (- k)))) + 1)"),
        ("-(k + 1)", "(- (k + 1))"),
        ("abs((k))", "abs(k)"),
        ("NOT (k = 1)", "(NOT (k = 1))"),
        ("(NOT true)", "(NOT true)"),
        ("k <> 1", "(NOT (k = 1))"),
        ("k IS NOT NULL", "(k IS NOT NULL)"),
        ("k <=> 1 OR k IS NULL", "((k <=> 1) OR (k IS NULL))"),
        ("k NOT IN (1, 2)", "(NOT (k IN (1, 2)))"),
        ("k NOT BETWEEN 1 AND 2", "(NOT between(k, 1, 2))"),
        ("'a' LIKE 'b'", "a LIKE b"),
        ("'a' NOT LIKE 'b'", "(NOT a LIKE b)"),
        ("'a' RLIKE 'b'", "RLIKE(a, b)"),
        ("k || 'x' || 'y'", "concat(concat(k, x), y)"),
        ("k div 2", "(k div 2)"),
        ("CASE k WHEN 1 THEN 'a' END", "CASE WHEN (k = 1) THEN a END"),
        ("CASE WHEN k IN (1, 2) THEN 1 ELSE 0 END", "CASE WHEN (k IN (1, 2)) THEN 1 ELSE 0 END"),
        ("max(k) FILTER (WHERE k > 0)", "max(k) FILTER (WHERE (k > 0))"),
    ],
)
def test_columns_without_alias_have_spark_s_names(engine: DuckDBEngine, item: str, name: str) -> None:
    engine.execute("CREATE TABLE t AS SELECT 1 AS k, named_struct('x', 1) AS st")
    assert engine.schema(f"SELECT {item} FROM t").names == [name]
    engine.execute(f"CREATE TABLE other AS SELECT {item} FROM t")
    assert engine.columns("other") == [name]


def test_values_alone_are_a_query(engine: DuckDBEngine) -> None:
    assert engine.schema("VALUES (1, 'x')").names == ["col1", "col2"]
    assert rows(engine, "(VALUES (1, 2))") == [(1, 2)]
    assert rows(engine, "VALUES (1), (2), (3) ORDER BY col1 DESC LIMIT 1 OFFSET 1") == [(2,)]


def test_a_schema_does_not_run_the_query(engine: DuckDBEngine) -> None:
    assert engine.schema("SELECT sum(id) AS a, count(*) AS n FROM range(100000000000000)").names == ["a", "n"]


def test_results_may_repeat_names(engine: DuckDBEngine) -> None:
    table = engine.execute("SELECT 1 AS a, 'x' AS a")
    assert table is not None
    assert table.column_names == ["a", "a"]
    assert [column.to_pylist() for column in table.columns] == [[1], ["x"]]


def test_a_reader_streams_while_other_queries_run(engine: DuckDBEngine) -> None:
    reader = engine.reader("SELECT id FROM range(1000000)")
    first = reader.read_next_batch()
    assert rows(engine, "SELECT 1 AS a") == [(1,)]
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 1_000_000


def test_an_error_on_the_way_is_a_statement_s(engine: DuckDBEngine) -> None:
    reader = engine.reader("SELECT CAST(CASE WHEN id = 700000 THEN 'x' ELSE '1' END AS INT) AS a FROM range(1000000)")
    with pytest.raises(StatementError, match="x"):
        reader.read_all()


def test_registered_files_are_a_view_until_dropped(engine: DuckDBEngine, tmp_path: Path) -> None:
    for i in (0, 1):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"{i}.parquet")
    engine.register("V", [tmp_path / "1.parquet", tmp_path / "0.parquet"])
    assert rows(engine, "SELECT * FROM v") == [(1,), (0,)]
    engine.register("v", [tmp_path / "0.parquet"])
    assert rows(engine, "SELECT * FROM v") == [(0,)]
    engine.execute("DROP VIEW v")
    engine.execute("DROP VIEW IF EXISTS v")
    with pytest.raises(StatementError, match="There is no table or view v"):
        engine.execute("SELECT * FROM v")


def test_a_name_of_with_comes_before_a_table(engine: DuckDBEngine) -> None:
    engine.execute("CREATE TEMPORARY VIEW t AS SELECT 1 AS a")
    assert rows(engine, "WITH t AS (SELECT a + 1 AS a FROM t) SELECT t.a FROM t") == [(2,)]
    assert rows(engine, "WITH u AS (SELECT 5 AS a), t AS (SELECT * FROM u) SELECT * FROM (SELECT * FROM t)") == [(5,)]
    engine.execute("CREATE TEMPORARY VIEW w AS SELECT * FROM t")
    assert rows(engine, "WITH t AS (SELECT 9 AS a) SELECT w.a, t.a FROM w, t") == [(1, 9)]


@pytest.mark.parametrize("source", ["t", "t AS s", "range(20000)", "(SELECT * FROM t)"])
def test_a_percentage_of_a_table_is_drawn_row_by_row(engine: DuckDBEngine, source: str) -> None:
    engine.execute("CREATE TABLE t AS SELECT id FROM range(20000)")
    for seed in ("", "REPEATABLE (7)"):
        drawn = rows(engine, query := f"SELECT id FROM {source} TABLESAMPLE (10 PERCENT) {seed}")
        assert (drawn == rows(engine, query)) == bool(seed)
        assert 1700 <= len(drawn) <= 2300
        assert len({row[0] // 200 for row in drawn}) == 100
    assert rows(engine, f"SELECT count(*) FROM {source} TABLESAMPLE (10 ROWS)") == [(10,)]


def test_relations_and_columns_are_listed(engine: DuckDBEngine) -> None:
    engine.execute("CREATE TABLE b AS SELECT 1 AS x, 2 AS y")
    engine.execute("CREATE VIEW a AS SELECT 1 AS z")
    engine.execute("CREATE TEMPORARY VIEW c AS SELECT 1 AS q")
    assert engine.relations() == ["a", "b", "c"]
    assert engine.columns("default.b") == ["x", "y"]
    assert engine.columns("c") == ["q"]


def test_staged_rows_keep_order_and_types_in_row_groups(engine: DuckDBEngine, tmp_path: Path) -> None:
    query = "SELECT id, concat('s', CAST(id % 10 AS STRING)) AS s, id % 2 AS p FROM range(300000) ORDER BY p DESC, id"
    scan = engine.stage(query, tmp_path / "staged" / "rows")
    assert scan.schema == engine.schema(query)
    assert scan.exact
    metadata = pq.read_metadata(scan.files[0])
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [122_880, 122_880, 54_240]
    assert pq.read_table(list(scan.files)).equals(engine.execute(query))


@lengthy
def test_a_join_is_staged_the_same_way_every_time(engine: DuckDBEngine, tmp_path: Path) -> None:
    engine.execute("CREATE TABLE l AS SELECT id, id % 1000 AS k, CAST(id AS STRING) AS s FROM range(200000)")
    engine.execute("CREATE TABLE r AS SELECT id % 1500 AS k, id AS v FROM range(4500)")
    query = "SELECT l.id, r.v, l.s FROM l LEFT JOIN r ON l.k = r.k"
    query = f"SELECT id, v, s FROM ({query}) UNION ALL SELECT k, sum(v), NULL FROM r GROUP BY k"
    first, *others = [pq.read_table(list(engine.stage(query, tmp_path / str(i)).files)) for i in range(5)]
    assert all(first.equals(other) for other in others)
