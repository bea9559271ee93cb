"""Queries that are read in place, piece by piece, give what the whole query gives."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cases import costly_after_first, lengthy
from xpsql.platform.engines.base import Scan, Staged
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.parquet_scan import ParquetScan
from xpsql.platform.errors import StatementError

ROWS = 5000


@pytest.fixture
def table(engine: DuckDBEngine, tmp_path: Path) -> str:
    """A view of two files of several row groups, with NULLs, NaN and every kind of column."""
    random = np.random.default_rng(7)
    n = random.integers(0, 50, ROWS)
    data = pa.table(
        {
            "n": pa.array(n, pa.int32(), mask=n == 3),
            "s": pa.array([f"s{i % 17}" if i % 5 else None for i in n]),
            "d": pa.array(np.where(n == 9, np.nan, random.normal(size=ROWS)), mask=n == 11),
            "t": pa.array(n.astype("int64") * 1_000_000, pa.timestamp("us", tz="UTC")),
            "a": pa.array([[f"x{j}" for j in range(i % 4)] for i in n]),
            "st": pa.array([{"x": int(i), "y": str(i)} for i in n]),
            "u": pa.array(n, pa.uint32()),
            "e.f": pa.array(n, pa.int64()),
        }
    )
    files = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for file, part in zip(files, (data.slice(0, 3000), data.slice(3000)), strict=True):
        pq.write_table(part, file, row_group_size=700)
    engine.register("t", files)
    return "t"


def test_arrays_of_every_kind_that_arrow_has_are_read_in_place(engine: DuckDBEngine, tmp_path: Path) -> None:
    values = pa.array(np.arange(6, dtype=np.float32))
    offsets = pa.array([0, 2, 6], pa.int64())
    kinds = {
        "v": pa.FixedSizeListArray.from_arrays(values, 3),
        "w": pa.LargeListArray.from_arrays(offsets, values),
    }
    pq.write_table(pa.table({**kinds, "n": [1, 2]}), tmp_path / "arrays.parquet")
    scan = engine.scan(f"SELECT v, w, n + 1 AS m FROM parquet.`{tmp_path / 'arrays.parquet'}`")
    assert isinstance(scan, ParquetScan)
    assert read(scan).to_pylist() == [
        {"v": [0, 1, 2], "w": [0, 1], "m": 2},
        {"v": [3, 4, 5], "w": [2, 3, 4, 5], "m": 3},
    ]


def test_elements_of_arrays_are_read_as_the_dictionaries_that_a_file_has(engine: DuckDBEngine, tmp_path: Path) -> None:
    """Also where its writer had given its dictionary up in the middle."""
    rows = [[f"item {i}", None, f"item {i % 7}"] if i % 3 else ([] if i % 2 else None) for i in range(3000)]
    path = tmp_path / "arrays.parquet"
    pq.write_table(pa.table({"a": rows}), path, dictionary_pagesize_limit=2000, data_page_size=1000)
    scan = engine.scan(f"SELECT a FROM parquet.`{path}`")
    assert isinstance(scan, ParquetScan)
    (split,) = scan.splits()
    tables = list(scan.read(split, ["a"], 1000))
    assert all(pa.types.is_dictionary(table.schema.field("a").type.value_type) for table in tables)
    assert [row for table in tables for row in table.column("a").to_pylist()] == rows


def pieces(scan: Scan) -> Iterator[pa.Table]:
    for file in scan.files:
        parquet = pq.ParquetFile(file)
        for group in range(parquet.num_row_groups):
            yield parquet.read_row_group(group, columns=list(scan.needed))


def read(scan: Scan) -> pa.Table:
    if scan.exact:
        parts = [piece.select(list(scan.columns.values())).rename_columns(list(scan.columns)) for piece in pieces(scan)]
    else:
        parts = [scan.project(piece) for piece in pieces(scan)]
    return pa.concat_tables(parts)


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Compare rows in their order; NaN equals NaN."""
    return found.schema == expected.schema and repr(found.to_pydict()) == repr(expected.to_pydict())


PLAIN = [
    "SELECT * FROM renamed",
    "SELECT s, n AS number, d FROM t",
    "SELECT q.s, Q.N AS n2 FROM t AS q",
    "SELECT * EXCEPT (n, u) FROM t",
    "SELECT x.* FROM (SELECT s AS k, * EXCEPT (s, u) FROM t) AS x",
    "SELECT `e.f` AS ef FROM t",
    "SELECT b, a FROM renamed",
    "SELECT * FROM (SELECT s AS z FROM (SELECT * FROM t))",
]


@pytest.mark.parametrize("query", PLAIN)
def test_references_and_renames_need_no_projection(engine: DuckDBEngine, table: str, query: str) -> None:
    engine.execute("CREATE TEMPORARY VIEW renamed (a, b) AS SELECT n, s FROM t")
    scan = engine.scan(query)
    assert isinstance(scan, ParquetScan)
    assert scan.exact
    expected = engine.execute(query)
    assert expected is not None
    assert same(read(scan), expected)


ROW_WISE = [
    "SELECT n, s FROM t WHERE n > 10",
    "SELECT n FROM t WHERE d > 0 OR d IS NULL",
    "SELECT concat(s, '-', n) AS k, CASE WHEN n < 10 THEN d END AS c, date_format(t, 'HH:mm') AS h FROM t WHERE s LIKE 's1%'",
    "SELECT 1 AS one FROM t",
    "SELECT st.x + 1 AS x, st.y FROM t",
    "SELECT transform(a, x -> upper(x)) AS a, size(a) AS n FROM t",
    "SELECT u FROM t",
    "SELECT k + 1 AS l FROM (SELECT n + 1 AS k, * EXCEPT (n) FROM t WHERE n <> 5) WHERE k % 2 = 0",
    "SELECT xxhash64('s', s) AS k, feature_key('n', n) AS f FROM t",
    "SELECT twice, s FROM doubled WHERE twice > 20",
    "SELECT n FROM t WHERE false",
    "SELECT CAST(n AS STRING) AS n, `e.f` * 2 AS m FROM t WHERE n IN (1, 2, 3)",
]


@lengthy
@pytest.mark.parametrize("query", ROW_WISE)
def test_pieces_are_equal_to_the_whole_query(engine: DuckDBEngine, table: str, query: str) -> None:
    engine.execute("CREATE TEMPORARY VIEW doubled AS SELECT n * 2 AS twice, s, d FROM t WHERE n IS NOT NULL")
    scan = engine.scan(query)
    assert isinstance(scan, ParquetScan)
    assert not scan.exact
    expected = engine.execute(query)
    assert expected is not None
    assert scan.schema == expected.schema
    assert same(read(scan), expected)


FILTERED = [
    ("SELECT n, s FROM grown WHERE g = 3", 1),
    ("SELECT s FROM grown WHERE g BETWEEN 2 AND 3 AND concat(s, 'x') <> 'y'", 2),
    ("SELECT * FROM (SELECT g AS h, s FROM grown) AS q WHERE Q.H >= 6", 2),
    ("SELECT h FROM renamed WHERE h IN (0, 7)", 2),
    ("SELECT h FROM (SELECT * FROM renamed WHERE h < 4) WHERE h > 1", 2),
    ("SELECT s FROM grown WHERE g = 1 OR g > 6", 2),
    ("SELECT s FROM grown WHERE NOT (g < 7)", 1),
    ("SELECT s FROM grown WHERE day = DATE '2026-01-03'", 1),
    ("SELECT s FROM grown WHERE at >= '2026-01-03' AND at < '2026-01-05 00:00:00'", 2),
    ("SELECT s FROM grown WHERE at < TIMESTAMP'2026-01-02T00:00:00.5'", 2),
    ("SELECT s FROM grown WHERE at = CAST('2026-01-08 00:00:49' AS TIMESTAMP)", 1),
    ("SELECT s FROM grown WHERE at BETWEEN DATE'2026-01-02' AND DATE'2026-01-03'", 2),
    ("SELECT s FROM grown WHERE CAST(at AS DATE) = '2026-01-03'", 1),
    ("SELECT s FROM grown WHERE to_date(at) IN ('2026-01-01', DATE'2026-01-08')", 2),
    ("SELECT s FROM grown WHERE date(at) > '2026-01-06'", 2),
    ("SELECT s FROM grown WHERE date(at) <= '2026-01-02'", 2),
    ("SELECT s FROM grown WHERE date(at) <> '2026-01-02'", 7),
    ("SELECT s FROM grown WHERE plain >= '2026-01-08'", 1),
    ("SELECT s FROM grown WHERE exact >= '2026-01-08'", 8),  # nanoseconds, which are cut to microseconds first
    ("SELECT s FROM grown WHERE at >= '2026-01-08T00:00:00+09:00'", 8),  # which has a zone of its own
    ("SELECT s FROM grown WHERE at >= '2026-1-8'", 8),
    ("SELECT s FROM grown WHERE word = 'w2'", 1),
    ("SELECT s FROM grown WHERE g = 100", 0),
    ("SELECT s FROM grown WHERE f < 1.5", 8),  # statistics leave NaN out, which is greater than any number
    ("SELECT s FROM grown WHERE g IS NULL", 1),
    ("SELECT g FROM (SELECT g + 1 AS g, s FROM grown) WHERE g = 3", 8),
    ("SELECT g FROM shifted WHERE g = 3", 8),
]


@costly_after_first
@pytest.mark.parametrize(("query", "splits"), FILTERED)
def test_row_groups_that_statistics_rule_out_are_no_splits(
    engine: DuckDBEngine, tmp_path: Path, query: str, splits: int
) -> None:
    number = np.repeat(np.arange(8), 50)
    seconds = (20454 + number) * 86_400 + np.arange(400) % 50
    data = {
        "at": pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC")),
        "plain": pa.array(seconds * 1_000_000, pa.timestamp("us")),
        "exact": pa.array(seconds * 1_000_000_000 + 999, pa.timestamp("ns")),
        "g": pa.array(number, pa.int32(), mask=np.arange(400) == 60),
        "f": np.where(np.arange(400) % 50 == 7, np.nan, number),
        "s": [f"s{i}" for i in range(400)],
        "n": np.arange(400),
        "day": pa.array(20454 + number, pa.int32()).cast(pa.date32()),
        "word": [f"w{i}" for i in number],
    }
    pq.write_table(pa.table(data), tmp_path / "grown.parquet", row_group_size=50)
    engine.register("grown", [tmp_path / "grown.parquet"])
    engine.execute("CREATE TEMPORARY VIEW renamed (h, k) AS SELECT g, concat(s, s) FROM grown")
    engine.execute("CREATE TEMPORARY VIEW shifted (k, g) AS SELECT g, g + 1 FROM grown")
    scan, expected = engine.scan(query), engine.execute(query)
    assert isinstance(scan, ParquetScan)
    assert expected is not None
    found = [table for split in scan.splits() for table in scan.read(split, scan.schema.names, 1000)]
    assert same(pa.concat_tables([scan.schema.empty_table(), *found]), expected)
    assert len(scan.splits()) == splits
    assert ("rule out" in scan.describe()) == (splits < 8)


def test_a_column_is_read_with_those_alone_that_it_and_the_filter_take(engine: DuckDBEngine, table: str) -> None:
    scan = engine.scan("SELECT concat(s, 'x') AS k, n + 1 AS m, d FROM t WHERE `e.f` > 10")
    assert isinstance(scan, ParquetScan)
    assert scan.project is not None
    assert set(scan.project.only(("m",)).needed) == {"n", "e.f"}
    alone = [table for split in scan.splits() for table in scan.read(split, ["m"], 100)]
    assert pa.concat_tables(alone).column("m") == read(scan).column("m")


def test_only_the_columns_that_a_query_uses_are_needed(engine: DuckDBEngine, table: str) -> None:
    scan = engine.scan("SELECT k FROM (SELECT n + 1 AS k, * EXCEPT (n) FROM t) WHERE s = 's1'")
    assert isinstance(scan, ParquetScan)
    assert scan.needed == ("n", "s")


def test_pieces_are_projected_by_several_threads_at_once(engine: DuckDBEngine, table: str) -> None:
    query = "SELECT n * 2 AS m, concat(s, 'x') AS s FROM t WHERE n > 4"
    scan = engine.scan(query)
    assert isinstance(scan, ParquetScan)
    assert not scan.exact
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(scan.project, list(pieces(scan)) * 5))
    expected = engine.execute(query)
    assert expected is not None
    assert same(pa.concat_tables(parts), pa.concat_tables([expected] * 5))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s, count(*) AS c FROM t GROUP BY s",
        "SELECT sum(n) AS c FROM t",
        "SELECT max(n) FROM t",
        "SELECT DISTINCT s FROM t",
        "SELECT n FROM t ORDER BY n",
        "SELECT n FROM t LIMIT 3",
        "SELECT n, row_number() OVER (ORDER BY n) AS r FROM t",
        "SELECT t.n FROM t JOIN t AS u ON t.n = u.n",
        "SELECT n, rand() AS r FROM t",
        "SELECT n, current_timestamp() AS r FROM t",
        "SELECT n, uuid() AS r FROM t",
        "SELECT n FROM t WHERE n IN (SELECT max(n) FROM t)",
        "SELECT n FROM t UNION ALL SELECT n FROM t",
        "WITH c AS (SELECT n FROM t) SELECT n FROM c",
        "SELECT 1 AS a",
        "SELECT n, N FROM t",
        "SELECT * FROM agg",
        "SELECT id FROM range(10)",
    ],
)
def test_other_queries_are_staged(engine: DuckDBEngine, table: str, query: str) -> None:
    engine.execute("CREATE TEMPORARY VIEW agg AS SELECT count(*) AS c FROM t")
    assert isinstance(engine.scan(query), Staged)


def test_files_of_other_schemas_are_staged(engine: DuckDBEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "1.parquet")
    assert isinstance(engine.scan(f"SELECT a FROM parquet.`{tmp_path}`"), Staged)


def test_files_with_floats_of_16_bits_are_staged_as_floats(engine: DuckDBEngine, tmp_path: Path) -> None:
    floats = np.array([0.5, 1.5], np.float16)
    pq.write_table(pa.table({"h": floats, "v": pa.array([floats, floats], pa.list_(pa.float16()))}), tmp_path / "a.parquet")
    for query in ("SELECT h, v FROM parquet.`{}`", "SELECT h + 1 AS h, v FROM parquet.`{}`"):
        found = engine.scan(query.format(tmp_path))
        assert isinstance(found, Staged)
        assert found.schema.field("v").type == pa.list_(pa.float32())
        assert engine.stage(query.format(tmp_path), tmp_path / "staged").schema == found.schema


def test_files_with_decimals_of_256_bits_are_staged(engine: DuckDBEngine, tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"d": pa.array([1, None, 3]).cast(pa.decimal256(40, 2))}), path)
    assert isinstance(engine.scan(f"SELECT d FROM parquet.`{path}`"), Staged)
    assert engine.reader(f"SELECT d FROM parquet.`{path}`").read_all()["d"].to_pylist() == [1, None, 3]


def test_files_by_path_and_warehouse_tables_are_read_in_place(engine: DuckDBEngine, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "0.parquet")
    engine.execute(f"CREATE TABLE w AS SELECT * FROM parquet.`{tmp_path}/0.parquet`")
    engine.execute(f"CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '{tmp_path}/0.parquet')")
    for relation in (f"parquet.`{tmp_path}/*.parquet`", "w", "default.w", "v"):
        scan = engine.scan(f"SELECT a AS b FROM {relation}")
        assert isinstance(scan, ParquetScan)
        assert scan.columns == {"b": "a"}
        assert all(Path(file).is_absolute() for file in scan.files)


def test_a_query_that_cannot_run_is_an_error_and_no_scan(engine: DuckDBEngine, table: str) -> None:
    with pytest.raises(StatementError, match=r"There is no column nn\. Did you mean n\?"):
        engine.scan("SELECT nn FROM t")
