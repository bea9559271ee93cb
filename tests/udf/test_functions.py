"""xpsql's own functions, called in queries on both engines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.cases import costly_after_first, lengthy
from tests.engines.rows import rows
from xpsql.platform.engines.base import Engine
from xpsql.platform.errors import StatementError
from xpsql.platform.ps.keys import feature_keys
from xpsql.platform.udf import COMPUTED, FUNCTIONS, Function
from xpsql.platform.udf.metrics import area, auc_of_lists

SCORED = (
    "VALUES (1, 0.9D, 'a'), (0, 0.9D, 'a'), (1, 0.4D, 'a'), (0, 0.1D, 'b'), (1, 0.2D, 'b'), (NULL, 0.3D, 'b'), (0, NULL, 'b')"
)


@pytest.fixture
def engine(opened: Callable[[], Engine]) -> Engine:
    return opened()


def value(engine: Engine, expression: str) -> Any:
    return rows(engine, f"SELECT {expression} FROM {SCORED} AS t(label, p, g)")[0][0]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_declaration_tells_how_to_call_the_function(function: Function) -> None:
    assert function.name == function.name.lower()
    assert "->" in function.signature
    assert function.help.endswith(".")


def test_computed_functions_have_names_of_our_own() -> None:
    assert all(function.name.startswith("xpsql_") for function in COMPUTED)


def test_xxhash64_has_the_values_of_spark(engine: Engine) -> None:
    assert value(engine, "xxhash64('Spark', array(123), 2)") == 5602566077635097486
    assert value(engine, "xxhash64(NULL)") == 42


def test_xxhash64_hashes_chunks_with_nulls(engine: Engine) -> None:
    hashes = rows(engine, "SELECT xxhash64('s', CASE WHEN id % 2 = 1 THEN CAST(id AS STRING) END) FROM range(5000) ORDER BY id")
    assert len({row[0] for row in hashes[1::2]}) == 2500
    assert {row[0] for row in hashes[0::2]} == {value(engine, "xxhash64('s')")}


@pytest.mark.parametrize("text", ["'abc'", "42", "true", "DATE'2013-01-05'", "CAST(NULL AS STRING)"])
def test_feature_key_is_the_key_that_models_use(engine: Engine, text: str) -> None:
    plain = value(engine, f"CAST({text} AS STRING)")
    expected = feature_keys("slot", pa.array([plain], pa.string())).view(np.int64)[0]
    assert value(engine, f"feature_key('slot', {text})") == expected


def test_cross_joins_without_collisions(engine: Engine) -> None:
    calls = [r"'a|b', 'c'", r"'a', 'b|c'", r"'a\\', 'b'", r"'a', '\\b'", "NULL, 'c'", r"'\\N', 'c'", "'', 'c'"]
    texts = [value(engine, f"cross({call})") for call in calls]
    assert len(set(texts)) == len(texts)
    assert value(engine, "cross('AA', 7, NULL)") == r"AA|7|\N"


def test_keys_of_decimals_below_one_have_their_zero(engine: Engine) -> None:
    assert value(engine, "cross(0.5, -0.25, 'x')") == "0.5|-0.25|x"
    expected = feature_keys("r", pa.array(["0.5"])).view(np.int64)[0]
    assert value(engine, "feature_key('r', 0.5)") == expected


@pytest.mark.parametrize(("x", "bucket"), [("-1", 0), ("0", 1), ("9.5", 1), ("10", 2), ("1e9", 2), ("NULL", None)])
def test_bucketize_counts_the_bounds_that_are_at_most_x(engine: Engine, x: str, bucket: int | None) -> None:
    assert value(engine, f"bucketize({x}, array(0, 10))") == bucket
    assert value(engine, f"bucketize({x}, array())") == (None if bucket is None else 0)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("clip(5, 0, 3)", 3.0),
        ("clip(-5, 0, 3)", 0.0),
        ("clip(1.5, 0, 3)", 1.5),
        ("clip(NULL, 0, 3)", None),
        ("clip(CAST('NaN' AS DOUBLE), 0, 3)", 3.0),
        ("hash_bucket('a', 10)", 6),
        ("hash_bucket(NULL, 10)", None),
        ("hash_bucket('a', size(array()))", None),
        ("ngrams(split('a b c', ' '), 1, 2)", ["a", "b", "c", "a b", "b c"]),
        ("ngrams(array('x', NULL, 'y'), 2, 3)", ["x y"]),
        ("ngrams(array(), 1, 2)", []),
        ("ngrams(CAST(NULL AS ARRAY<STRING>), 1, 2)", None),
        ("quantile_bounds(p, 2)", [0.35]),
        ("quantile_bounds(p, 3) FILTER (WHERE g = 'b')", [pytest.approx(1 / 6), pytest.approx(7 / 30)]),
    ],
)
def test_functions_of_features_have_the_same_values_everywhere(engine: Engine, call: str, expected: Any) -> None:
    assert value(engine, call) == expected


@costly_after_first
def test_metrics_are_exact_and_pass_over_nulls(engine: Engine) -> None:
    assert value(engine, "auc(label, p)") == pytest.approx((0.5 + 1 + 0 + 1 + 0 + 1) / 6)
    assert value(engine, "pcopc(label, p)") == pytest.approx(2.5 / 3)
    losses = [-math.log(0.9), -math.log(0.1), -math.log(0.4), -math.log(0.9), -math.log(0.2)]
    assert value(engine, "logloss(label, p)") == pytest.approx(sum(losses) / 5)


@costly_after_first
def test_metrics_take_filters_groups_and_windows(engine: Engine) -> None:
    assert value(engine, "auc(label, p) FILTER (WHERE g = 'b')") == 1.0
    grouped = f"SELECT g, auc(label, p), pcopc(label, p) FROM {SCORED} AS t(label, p, g) GROUP BY g ORDER BY g"
    assert rows(engine, grouped) == [("a", 0.25, pytest.approx(1.1)), ("b", 1.0, pytest.approx(0.3))]
    windowed = f"SELECT DISTINCT g, logloss(label, p) OVER (PARTITION BY g) FROM {SCORED} AS t(label, p, g) ORDER BY g"
    assert len(rows(engine, windowed)) == 2


@lengthy
def test_metrics_of_one_class_are_null(engine: Engine) -> None:
    assert value(engine, "auc(0, p)") is None
    assert value(engine, "pcopc(0, p)") is None


def test_extreme_predictions_have_a_finite_loss(engine: Engine) -> None:
    assert value(engine, "logloss(1, 0D)") == pytest.approx(-math.log(1e-15))


def test_auc_equals_the_count_of_pairs_in_order() -> None:
    random = np.random.default_rng(7)
    positives, negatives = random.integers(0, 9, 50) / 10, random.integers(0, 9, 70) / 10
    pairs = positives[:, None] - negatives[None, :]
    assert area(positives, negatives) == pytest.approx(((pairs > 0) + (pairs == 0) / 2).mean(), abs=1e-12)


def test_auc_of_missing_lists_is_null() -> None:
    lists = pa.array([[0.5], [], None], pa.list_(pa.float64()))
    others = pa.array([[0.25], [0.25], [0.25]], pa.list_(pa.float64()))
    assert auc_of_lists([lists, others]).to_pylist() == [1.0, None, None]


def test_a_wrong_number_of_arguments_is_named_with_its_place(engine: Engine) -> None:
    with pytest.raises(StatementError, match=r"feature_key takes .*got 1 arguments.*line 2, column 3"):
        rows(engine, "SELECT\n  feature_key('user')")


def test_types_have_the_names_of_spark(engine: Engine) -> None:
    values = ["1", "'a'", "array(1.5D)", "map('a', 1L)", "NULL", "named_struct('x', DATE'2020-01-01', 'y', true)"]
    values += ["CAST(1 AS DECIMAL(7, 2))", "timestamp_seconds(0)", "binary('a')", "label", "g"]
    found = rows(engine, f"SELECT {', '.join(f'typeof({one})' for one in values)} FROM {SCORED} AS t(label, p, g) LIMIT 1")[0]
    assert found == (
        *("int", "string", "array<double>", "map<string,bigint>", "void", "struct<x:date,y:boolean>"),
        *("decimal(7,2)", "timestamp", "binary", "int", "string"),
    )


def test_a_number_of_quantiles_is_written_as_one(engine: Engine) -> None:
    for n in ("label", "1", "-4"):
        with pytest.raises(StatementError, match="a number from 2 to 1000") as refused:
            value(engine, f"quantile_bounds(p, {n})")
        assert refused.value.position is not None
        assert refused.value.position.text.startswith("quantile_bounds")


@costly_after_first
def test_calls_stand_inside_each_other_and_in_every_clause(engine: Engine) -> None:
    assert value(engine, "feature_key('a', cross(1, 'b'))") == value(engine, "feature_key('a', '1|b')")
    assert value(engine, "feature_key('a', 1, 'b|', NULL)") == value(engine, r"feature_key('a', '1|b\\||\\N')")
    grouped = f"SELECT g FROM {SCORED} AS t(label, p, g) GROUP BY g"
    assert rows(engine, f"{grouped} HAVING auc(label, p) > 0.5") == [("b",)]
    assert rows(engine, f"{grouped} ORDER BY auc(label, p) DESC") == [("b",), ("a",)]


def test_columns_of_calls_are_named_as_spark_names_calls(engine: Engine) -> None:
    query = f"SELECT count(*) AS n, auc(label, p), round(pcopc(label, p), 2) FROM {SCORED} AS t(label, p, g)"
    assert engine.schema(query).names == ["n", "auc(label, p)", "round(pcopc(label, p), 2)"]


@pytest.mark.parametrize("operator", ["UNION", "EXCEPT", "MINUS", "INTERSECT"])
def test_calls_stand_before_operators_of_sets(engine: Engine, operator: str) -> None:
    query = f"SELECT feature_key('a', 1) {operator} SELECT feature_key('a', 1)"
    assert engine.schema(query).names == ["feature_key(a, 1)"]
    assert len(rows(engine, query)) == (operator in ("UNION", "INTERSECT"))
    with pytest.raises(StatementError):
        engine.execute(f"SELECT feature_key('a', 1) {operator}")


def test_errors_inside_a_call_have_their_place(engine: Engine) -> None:
    with pytest.raises(StatementError, match="There is no column nope") as raised:
        engine.execute("SELECT 1,\n  feature_key('user', nope) AS key FROM range(3)")
    assert raised.value.position == (2, 23, "nope")


def test_views_may_call_functions(opened: Callable[[], Engine]) -> None:
    opened().execute("CREATE VIEW keys AS SELECT feature_key('n', id) AS key FROM range(2)")
    engine = opened()
    assert sorted(rows(engine, "SELECT key FROM keys")) == sorted(
        rows(engine, "SELECT xxhash64('n', CAST(id AS STRING)) FROM range(2)")
    )
