"""Functions that are computed, and the rewriting of the others."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from xpsql.platform.engines.dialect import SparkSQL, parse
from xpsql.platform.errors import StatementError
from xpsql.platform.udf import FUNCTIONS, register
from xpsql.platform.udf.metrics import area, auc_of_lists
from xpsql.platform.udf.rewrite import rewritten


def plain(sql: str) -> str:
    return rewritten(parse(sql), FUNCTIONS, SparkSQL).sql("spark")


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    register(connection)
    return connection


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_function_is_either_rewritten_or_computed(function: object) -> None:
    assert (function.sql is None) != (function.compute is None)  # type: ignore[attr-defined]
    assert function.name == function.name.lower()
    assert function.help.endswith(".")


def test_xxhash64_has_the_values_of_spark(connection: duckdb.DuckDBPyConnection) -> None:
    assert connection.sql("SELECT xxhash64('Spark', [123], 2::INTEGER)").fetchall() == [(5602566077635097486,)]
    assert connection.sql("SELECT xxhash64(NULL)").fetchall() == [(42,)]


def test_xxhash64_takes_a_chunk_of_rows_with_nulls(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.sql(
        "SELECT xxhash64('slot', IF(i % 2 = 0, NULL, CAST(i AS VARCHAR))) FROM range(5000) t(i) ORDER BY i"
    ).fetchall()
    assert len({row[0] for row in rows[1::2]}) == 2500
    assert {row[0] for row in rows[0::2]} == {connection.sql("SELECT xxhash64('slot')").fetchall()[0][0]}


def test_auc_equals_the_count_of_pairs_in_order() -> None:
    random = np.random.default_rng(7)
    positives, negatives = random.integers(0, 9, 50) / 10, random.integers(0, 9, 70) / 10
    pairs = positives[:, None] - negatives[None, :]
    assert area(positives, negatives) == pytest.approx(((pairs > 0) + (pairs == 0) / 2).mean(), abs=1e-12)


def test_auc_without_one_kind_of_label_is_null() -> None:
    lists = pa.array([[0.5], [], None], pa.list_(pa.float64()))
    others = pa.array([[0.25], [0.25], [0.25]], pa.list_(pa.float64()))
    assert auc_of_lists([lists, others]).to_pylist() == [1.0, None, None]


def test_feature_key_is_a_hash_in_plain_sql() -> None:
    assert (
        plain("SELECT feature_key('user', id) FROM t")
        == "SELECT (XXHASH64(CAST(('user') AS STRING), CAST((id) AS STRING))) FROM t"
    )


def test_calls_inside_calls_are_rewritten() -> None:
    sql = plain("SELECT feature_key('pair', cross(a, b)) FROM t")
    assert "cross" not in sql.lower()
    assert "feature_key" not in sql.lower()


def test_a_wrong_number_of_arguments_is_named_with_its_place() -> None:
    with pytest.raises(StatementError, match=r"feature_key takes .*got 1 arguments.*line 2, column 3"):
        plain("SELECT\n  feature_key('user') FROM t")


@pytest.mark.parametrize("call", ["auc(l, p) OVER ()", "pcopc(l, p) FILTER (WHERE l > 0)", "logloss(DISTINCT l, p)"])
def test_metrics_refuse_clauses_that_they_cannot_take(call: str) -> None:
    with pytest.raises(StatementError, match="subquery"):
        plain(f"SELECT {call} FROM t")
