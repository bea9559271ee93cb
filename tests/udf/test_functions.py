"""xpsql's own functions, called in queries on the embedded engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from xpsql.platform.engines.dialect import parse
from xpsql.platform.engines.transpile import translate
from xpsql.platform.errors import StatementError
from xpsql.platform.ps.keys import feature_keys
from xpsql.platform.udf import COMPUTED, FUNCTIONS, Function, register
from xpsql.platform.udf.metrics import area, auc_of_lists

SCORED = (
    "VALUES (1, 0.9D, 'a'), (0, 0.9D, 'a'), (1, 0.4D, 'a'), (0, 0.1D, 'b'), (1, 0.2D, 'b'), (NULL, 0.3D, 'b'), (0, NULL, 'b')"
)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        register(connection)
        yield connection


def rows(connection: duckdb.DuckDBPyConnection, text: str) -> list[Any]:
    return connection.sql(translate(parse(text), connection)).fetchall()


def value(connection: duckdb.DuckDBPyConnection, expression: str) -> Any:
    return rows(connection, f"SELECT {expression} FROM {SCORED} AS t(label, p, g)")[0][0]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_declaration_tells_how_to_call_the_function(function: Function) -> None:
    assert function.name == function.name.lower()
    assert "->" in function.signature
    assert function.help.endswith(".")


def test_computed_functions_have_names_of_our_own() -> None:
    assert all(function.name.startswith("xpsql_") for function in COMPUTED)


def test_xxhash64_has_the_values_of_spark(connection: duckdb.DuckDBPyConnection) -> None:
    assert value(connection, "xxhash64('Spark', array(123), 2)") == 5602566077635097486
    assert value(connection, "xxhash64(NULL)") == 42


def test_xxhash64_hashes_chunks_with_nulls(connection: duckdb.DuckDBPyConnection) -> None:
    hashes = rows(
        connection, "SELECT xxhash64('s', CASE WHEN id % 2 = 1 THEN CAST(id AS STRING) END) FROM range(5000) ORDER BY id"
    )
    assert len({row[0] for row in hashes[1::2]}) == 2500
    assert {row[0] for row in hashes[0::2]} == {value(connection, "xxhash64('s')")}


@pytest.mark.parametrize("text", ["'abc'", "42", "true", "DATE'2013-01-05'", "CAST(NULL AS STRING)"])
def test_feature_key_is_the_key_that_models_use(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    plain = value(connection, f"CAST({text} AS STRING)")
    expected = feature_keys("slot", pa.array([plain], pa.string())).view(np.int64)[0]
    assert value(connection, f"feature_key('slot', {text})") == expected


def test_cross_joins_without_collisions(connection: duckdb.DuckDBPyConnection) -> None:
    calls = [r"'a|b', 'c'", r"'a', 'b|c'", r"'a\\', 'b'", r"'a', '\\b'", "NULL, 'c'", r"'\\N', 'c'", "'', 'c'"]
    texts = [value(connection, f"cross({call})") for call in calls]
    assert len(set(texts)) == len(texts)
    assert value(connection, "cross('AA', 7, NULL)") == r"AA|7|\N"


@pytest.mark.parametrize(("x", "bucket"), [("-1", 0), ("0", 1), ("9.5", 1), ("10", 2), ("1e9", 2), ("NULL", None)])
def test_bucketize_counts_the_bounds_that_are_at_most_x(
    connection: duckdb.DuckDBPyConnection, x: str, bucket: int | None
) -> None:
    assert value(connection, f"bucketize({x}, array(0, 10))") == bucket


def test_metrics_are_exact_and_pass_over_nulls(connection: duckdb.DuckDBPyConnection) -> None:
    assert value(connection, "auc(label, p)") == pytest.approx((0.5 + 1 + 0 + 1 + 0 + 1) / 6)
    assert value(connection, "pcopc(label, p)") == pytest.approx(2.5 / 3)
    losses = [-math.log(0.9), -math.log(0.1), -math.log(0.4), -math.log(0.9), -math.log(0.2)]
    assert value(connection, "logloss(label, p)") == pytest.approx(sum(losses) / 5)


def test_metrics_take_filters_groups_and_windows(connection: duckdb.DuckDBPyConnection) -> None:
    assert value(connection, "auc(label, p) FILTER (WHERE g = 'b')") == 1.0
    grouped = f"SELECT g, auc(label, p), pcopc(label, p) FROM {SCORED} AS t(label, p, g) GROUP BY g ORDER BY g"
    assert rows(connection, grouped) == [("a", 0.25, pytest.approx(1.1)), ("b", 1.0, pytest.approx(0.3))]
    windowed = f"SELECT DISTINCT g, logloss(label, p) OVER (PARTITION BY g) FROM {SCORED} AS t(label, p, g) ORDER BY g"
    assert len(rows(connection, windowed)) == 2


def test_metrics_of_one_class_are_null(connection: duckdb.DuckDBPyConnection) -> None:
    assert value(connection, "auc(0, p)") is None
    assert value(connection, "pcopc(0, p)") is None


def test_extreme_predictions_have_a_finite_loss(connection: duckdb.DuckDBPyConnection) -> None:
    assert value(connection, "logloss(1, 0D)") == pytest.approx(-math.log(1e-15))


def test_auc_equals_the_count_of_pairs_in_order() -> None:
    random = np.random.default_rng(7)
    positives, negatives = random.integers(0, 9, 50) / 10, random.integers(0, 9, 70) / 10
    pairs = positives[:, None] - negatives[None, :]
    assert area(positives, negatives) == pytest.approx(((pairs > 0) + (pairs == 0) / 2).mean(), abs=1e-12)


def test_auc_of_missing_lists_is_null() -> None:
    lists = pa.array([[0.5], [], None], pa.list_(pa.float64()))
    others = pa.array([[0.25], [0.25], [0.25]], pa.list_(pa.float64()))
    assert auc_of_lists([lists, others]).to_pylist() == [1.0, None, None]


def test_a_wrong_number_of_arguments_is_named_with_its_place(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(StatementError, match=r"feature_key takes .*got 1 arguments.*line 2, column 3"):
        rows(connection, "SELECT\n  feature_key('user')")
