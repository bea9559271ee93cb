"""OWL-QN: its optimum is scikit-learn's, on one worker and on several tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.optimize
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, QuantileRegressor
from sklearn.metrics import mean_pinball_loss

import xpsql
from tests.cases import costly, lengthy, quick, slow
from tests.sparks import needs_spark_4
from tests.training.log import write
from xpsql.algorithms.linear.quasi_newton import minimise, pseudo_gradient
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

ROWS, CITIES = 2000, 30
NAMES = ("x0", "x1", "x2")
Doubles = NDArray[np.float64]


class Log:
    """Clicks that depend on numbers and a city, and the same as a matrix."""

    def __init__(self, folder: Path) -> None:
        random = np.random.default_rng(0)
        x, city = random.normal(size=(ROWS, 3)) * [1, 10, 0.1], random.integers(0, CITIES, ROWS)
        score = x @ [1, -0.2, 5] + np.sin(city)
        self.clicks = (random.random(ROWS) < 1 / (1 + np.exp(-score))).astype(int)
        self.prices = 1000 + 50 * score + random.normal(size=ROWS)
        columns = {"city": city, **dict(zip(NAMES, x.T, strict=True))}
        self.path = write(pa.table({"label": self.clicks, "price": self.prices, **columns}), folder / "log.parquet", 500)
        self.matrix = np.column_stack([(x - x.mean(axis=0)) / x.std(axis=0), np.eye(CITIES)[city]])


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def learned(session: xpsql.Session, log: Log, statement: str, query: str = "* EXCEPT (price)") -> tuple[Doubles, float]:
    """Return the weights after a training, cities' last, and the intercept."""
    session.sql(f"TRAIN OR REPLACE MODEL m USING {statement} AS SELECT {query} FROM parquet.`{log.path}`")
    cities = session.sql(
        f"SELECT w.weight FROM (SELECT id FROM range({CITIES})) c JOIN ML.WEIGHTS(MODEL m) w "
        "ON w.key = feature_key('city', CAST(c.id AS STRING)) ORDER BY c.id"
    ).arrow()["weight"]
    others = session.sql("SELECT slot, weight FROM ML.WEIGHTS(MODEL m) WHERE slot <> 'city'").arrow().to_pylist()
    by_slot = {row["slot"]: row["weight"] for row in others}
    return np.array([*(by_slot[name] for name in NAMES), *cities.to_pylist()]), by_slot["(intercept)"]


def objective(log: Log, weights: Doubles, intercept: float, l1: float, l2: float) -> float:
    score = log.matrix @ weights + intercept
    loss = np.logaddexp(0, score) - log.clicks * score
    return float(loss.sum() + l1 * np.abs(weights).sum() + l2 / 2 * (weights @ weights))


@lengthy
def test_with_an_l2_penalty_it_finds_the_weights_of_scikit_learn(session: xpsql.Session, log: Log) -> None:
    weights, intercept = learned(session, log, "owlqn (l2 = 2, tolerance = 1e-9)")
    peer = LogisticRegression(C=1 / 2, tol=1e-9, max_iter=1000).fit(log.matrix, log.clicks)
    np.testing.assert_allclose(weights, peer.coef_[0], atol=1e-3)
    assert intercept == pytest.approx(peer.intercept_[0], abs=1e-3)


@costly
def test_with_an_l1_penalty_it_finds_the_optimum_of_scikit_learn_and_its_zeros(session: xpsql.Session, log: Log) -> None:
    weights, intercept = learned(session, log, "owlqn (l1 = 3, l2 = 0, tolerance = 1e-9)")
    peer = LogisticRegression(C=1 / 3, l1_ratio=1, solver="saga", tol=1e-8, max_iter=20_000).fit(log.matrix, log.clicks)
    ours = objective(log, weights, intercept, 3, 0)
    assert ours == pytest.approx(objective(log, peer.coef_[0], peer.intercept_[0], 3, 0), rel=1e-4)
    np.testing.assert_array_equal(weights == 0, peer.coef_[0] == 0)
    assert (weights == 0).sum() > 3


@costly
def test_with_squared_loss_it_finds_the_lasso_in_the_labels_unit(session: xpsql.Session, log: Log) -> None:
    price = "price AS label, * EXCEPT (label, price)"
    weights, _ = learned(session, log, "owlqn (loss = 'squared', l1 = 40, l2 = 0, tolerance = 1e-9)", price)
    scaled = (log.prices - log.prices.mean()) / log.prices.std()
    peer = Lasso(alpha=40 / ROWS, tol=1e-8, max_iter=100_000).fit(log.matrix, scaled)
    np.testing.assert_allclose(weights, peer.coef_, atol=2e-3)
    (row,) = session.sql("SELECT rmse, examples FROM ML.EVALUATE(MODEL m)").arrow().to_pylist()
    assert row["rmse"] == pytest.approx(np.std(peer.predict(log.matrix) - scaled) * log.prices.std(), rel=1e-2)
    assert row["examples"] == ROWS


@costly
def test_with_poisson_loss_it_finds_the_weights_of_scikit_learn(session: xpsql.Session, log: Log) -> None:
    label = "CAST(floor(price / 100) AS BIGINT) AS label, * EXCEPT (label, price)"
    weights, intercept = learned(session, log, "owlqn (loss = 'poisson', l2 = 2, tolerance = 1e-10, iterations = 1000)", label)
    peer = PoissonRegressor(alpha=2 / ROWS, tol=1e-10, max_iter=10_000).fit(log.matrix, np.floor(log.prices / 100))
    np.testing.assert_allclose(weights, peer.coef_, atol=1e-3)
    assert intercept == pytest.approx(peer.intercept_, abs=1e-3)


@costly
@pytest.mark.parametrize("at", quick([0.1, 0.5, 0.9], [0.9]))
def test_with_the_loss_of_a_quantile_it_comes_near_the_optimum_of_scikit_learn(
    session: xpsql.Session, log: Log, at: float
) -> None:
    price = "price AS label, * EXCEPT (label, price)"
    learned(session, log, f"owlqn (loss = 'quantile', at = {at}, l2 = 0, tolerance = 1e-9, iterations = 1000)", price)
    query = f"SELECT price AS label, * EXCEPT (label, price) FROM parquet.`{log.path}`"
    (found,) = session.sql(f"SELECT pinball, coverage FROM ML.EVALUATE(MODEL m, ({query}))").arrow().to_pylist()
    peer = QuantileRegressor(quantile=at, alpha=0, solver="highs").fit(log.matrix, log.prices)
    best = mean_pinball_loss(log.prices, peer.predict(log.matrix), alpha=at)
    assert found["pinball"] == pytest.approx(best, rel=2e-3)
    assert found["coverage"] == pytest.approx(at, abs=0.02)


@costly
def test_metrics_and_statistics_are_those_of_the_data(session: xpsql.Session, log: Log) -> None:
    learned(session, log, "owlqn WITH (workers = 2)")
    on_data = f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT * EXCEPT (price) FROM parquet.`{log.path}`))"
    data, training = (
        session.sql(query).arrow().to_pylist()[0]
        for query in (on_data, "SELECT * EXCEPT (measured_on) FROM ML.EVALUATE(MODEL m)")
    )
    for name, value in training.items():
        assert data[name] == (None if value is None else pytest.approx(value, rel=1e-4)), name
    (row,) = session.sql("SELECT count, clicks FROM ML.WEIGHTS(MODEL m) WHERE slot = '(intercept)'").arrow().to_pylist()
    assert row == {"count": ROWS, "clicks": int(log.clicks.sum())}
    values = session.sql("SELECT * FROM ML.TRAINING_INFO(MODEL m)").arrow()
    objectives = [value for value in values["objective"].to_pylist() if value is not None]
    assert objectives == sorted(objectives, reverse=True)
    assert len(objectives) > 3


@costly
def test_a_version_that_continues_begins_where_its_parent_ended(session: xpsql.Session, log: Log, tmp_path: Path) -> None:
    statement = "owlqn (l2 = 2, tolerance = 1e-9)"
    learned(session, log, statement)
    known = f"SELECT * EXCEPT (price) FROM parquet.`{log.path}` WHERE city <> 3"
    before = "SELECT weight FROM ML.WEIGHTS(MODEL m) WHERE key = feature_key('city', '3')"
    kept = session.sql(before).arrow()
    session.sql(f"CONTINUE MODEL m AS SELECT * EXCEPT (price) FROM parquet.`{log.path}`")
    steps = "SELECT count(objective) AS n FROM ML.TRAINING_INFO(MODEL m) WHERE version = {}"
    first, second = (session.sql(steps.format(number)).arrow()["n"][0].as_py() for number in (1, 2))
    assert second < first / 2
    session.sql(f"CONTINUE MODEL m AS {known}")
    np.testing.assert_allclose(session.sql(before).arrow()["weight"], kept["weight"], atol=1e-3)


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("OPERATORS (ftrl)", r"Operator ftrl changes updates batch by batch; owlqn learns all examples at once"),
        ("OPERATORS (safety)", "Operator safety keeps NaN out of updates, which exist only batch by batch; only max_weight"),
        ("OPERATORS (safety (max_weight = 1, max_update = 1))", "Operator safety limits gradients and updates"),
        ("EVALUATE EVERY 1 BATCHES ON 1 BATCHES", "EVALUATE scores batches before"),
        ("WITH (passes = 2)", "passes = 2 has no effect"),
    ],
)
def test_clauses_that_mean_nothing_are_refused(session: xpsql.Session, clause: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        session.sql(f"TRAIN MODEL m USING owlqn {clause} AS SELECT 1 AS label, 'a' AS city")


@costly
@pytest.mark.parametrize(
    ("operator", "l1", "l2"),
    [
        pytest.param("regularize (strength = 2)", 0, 2, marks=slow),
        pytest.param("regularize (penalty = 'elastic', strength = 4, l1_ratio = 0.75)", 3, 1, marks=slow),
        ("regularize (penalty = 'l1', strength = 9, by_frequency = (1000000, 3))", 3, 0),
        ("regularize (penalty = 'l1', strength = 1), regularize (penalty = 'group', strength = 2)", 3, 0),
    ],
)
def test_penalties_of_regularize_are_those_of_its_own_options(
    session: xpsql.Session, log: Log, operator: str, l1: float, l2: float
) -> None:
    expected, _ = learned(session, log, f"owlqn (l1 = {l1}, l2 = {l2}, tolerance = 1e-9)")
    found, _ = learned(session, log, f"owlqn (l2 = 0, tolerance = 1e-9) OPERATORS ({operator})")
    np.testing.assert_allclose(found, expected, atol=1e-6)


@costly
def test_rare_features_are_regularised_by_their_frequency(session: xpsql.Session, log: Log) -> None:
    """Numbers occur in all rows, cities in less than 200."""
    weights, _ = learned(
        session, log, "owlqn (l2 = 0) OPERATORS (regularize (penalty = 'l1', strength = 0, by_frequency = (200, 1000)))"
    )
    assert not weights[len(NAMES) :].any()
    assert np.abs(weights[: len(NAMES)]).min() > 0.1


@costly
@pytest.mark.parametrize("l1", [0.0, 3.0])
def test_weights_within_a_limit_are_the_best_of_those(session: xpsql.Session, log: Log, l1: float) -> None:
    """Against a bounded search of another kind, each weight as its positive and its negative part."""
    most, n = 0.5, log.matrix.shape[1]
    weights, intercept = learned(
        session, log, f"owlqn (l1 = {l1}, l2 = 2, tolerance = 1e-10) OPERATORS (safety (max_weight = {most}))"
    )

    def function(x: Doubles) -> tuple[float, Doubles]:
        w = x[:n] - x[n:-1]
        score = log.matrix @ w + x[-1]
        slope = log.matrix.T @ (1 / (1 + np.exp(-score)) - log.clicks) + 2 * w
        by_intercept = (1 / (1 + np.exp(-score)) - log.clicks).sum()
        value = np.logaddexp(0, score).sum() - log.clicks @ score + l1 * x[:-1].sum() + w @ w
        return float(value), np.concatenate([slope + l1, l1 - slope, [by_intercept]])

    bounds = [(0, most)] * (2 * n) + [(-most, most)]
    peer = scipy.optimize.minimize(function, np.zeros(2 * n + 1), jac=True, bounds=bounds, options={"ftol": 1e-13})
    assert np.abs([*weights, intercept]).max() == pytest.approx(most)
    assert objective(log, weights, intercept, l1, 2) == pytest.approx(peer.fun, rel=1e-7)


@costly
@needs_spark_4  # whose SQL has EXCEPT (columns)
@pytest.mark.parametrize("workers", quick([1, 2, 4], [2]))
def test_spark_finds_the_same_optimum_on_any_number_of_workers(
    spark: SparkSession, log: Log, tmp_path: Path, workers: int
) -> None:
    peer = LogisticRegression(C=1 / 3, l1_ratio=1, solver="saga", tol=1e-8, max_iter=20_000).fit(log.matrix, log.clicks)
    least = objective(log, peer.coef_[0], peer.intercept_[0], 3, 0)
    with xpsql.connect(tmp_path / "spark", spark, SilentReporter()) as session:
        statement = f"owlqn (l1 = 3, l2 = 0, tolerance = 1e-9) WITH (workers = {workers})"
        assert objective(log, *learned(session, log, statement), 3, 0) == pytest.approx(least, rel=1e-4)


def test_the_search_ends_at_the_least_of_a_quadratic_with_kinks() -> None:
    random = np.random.default_rng(1)
    a, b, l1 = random.normal(size=(20, 8)), random.normal(size=20), np.linspace(0, 4, 8)

    def function(x: Doubles) -> tuple[float, Doubles]:
        rest = a @ x - b
        return float(rest @ rest) / 2, a.T @ rest

    steps: list[Any] = []
    found = minimise(function, np.zeros(8), l1, np.full(8, np.inf), 200, 0.0, 5, lambda *reported: steps.append(reported))
    _, gradient = function(found)
    np.testing.assert_allclose(pseudo_gradient(found, gradient, l1), 0, atol=1e-4)
    assert (found == 0).any()
    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))


def test_a_search_without_a_least_value_ends_where_nothing_is_gained_any_more() -> None:
    """Labels that are all 1: the loss falls for ever, until curvature is made of rounding errors."""

    def function(x: Doubles) -> tuple[float, Doubles]:
        loss = np.logaddexp(0, -x.sum())
        return float(loss), np.full(2, -np.exp(-x.sum() - loss), np.float64)

    seen: list[float] = []
    found = minimise(function, np.zeros(2), np.zeros(2), np.full(2, np.inf), 200, 0.0, 10, lambda _, value: seen.append(value))
    assert 10 < found.sum() < 1e3
    assert len(seen) < 60
