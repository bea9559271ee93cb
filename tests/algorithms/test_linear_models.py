"""Linear models: what they learn is the closed form's, or scikit-learn's, coefficient for coefficient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import xpsql
from tests.cases import costly, lengthy
from tests.training.log import write

ROWS = 400
NAMES = ("x0", "x1", "x2")
WHOLE = f"WITH (batch_size = {ROWS}, passes = {{passes}})"  # every update sees all rows: descent to the optimum
Doubles = NDArray[np.float64]


def inputs() -> Doubles:
    """Return columns of different scale and place, two of which go together."""
    random = np.random.default_rng(3)
    x = random.normal(size=(ROWS, 3))
    x[:, 1] += 0.5 * x[:, 0]
    return x * [1.0, 20.0, 0.01] + [3.0, -50.0, 0.0]


def table(x: Doubles, label: NDArray[Any], path: Path) -> Path:
    return write(pa.table({"label": label, **dict(zip(NAMES, x.T, strict=True))}), path, ROWS)


def standard(values: Doubles) -> Doubles:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def learned(session: xpsql.Session, statement: str, path: Path) -> dict[str, float]:
    """Return the weight of each slot after a training."""
    session.sql(f"TRAIN MODEL m USING {statement} AS SELECT * FROM parquet.`{path}`")
    rows = session.sql("SELECT slot, weight FROM ML.WEIGHTS(MODEL m)").arrow().to_pylist()
    return {row["slot"]: row["weight"] for row in rows}


def prices() -> tuple[Doubles, Doubles]:
    x = inputs()
    noise = np.random.default_rng(4).normal(size=ROWS)
    return x, 250_000 + x @ [3_000.0, -400.0, 2e6] + 5_000 * noise


def test_linear_regression_finds_least_squares_whatever_the_units(session: xpsql.Session, tmp_path: Path) -> None:
    x, y = prices()
    path = table(x, y, tmp_path / "log.parquet")
    weights = learned(session, f"linear_regression (learning_rate = 2) {WHOLE.format(passes=400)}", path)
    expected, *_ = np.linalg.lstsq(standard(x), standard(y), rcond=None)
    np.testing.assert_allclose([weights[name] for name in NAMES], expected, atol=2e-3)
    assert weights["(intercept)"] == pytest.approx(0, abs=2e-3)
    design = np.column_stack([np.ones(ROWS), x])
    exact = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    query = f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{path}`))"
    np.testing.assert_allclose(session.sql(query).arrow()["predicted_label"], exact, atol=0.005 * y.std())
    (row,) = session.sql(f"SELECT rmse, mae FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{path}`))").arrow().to_pylist()
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean((y - exact) ** 2)), rel=1e-2)
    assert row["mae"] == pytest.approx(np.mean(np.abs(y - exact)), rel=1e-2)


def test_ridge_regression_finds_the_closed_form(session: xpsql.Session, tmp_path: Path) -> None:
    x, y = prices()
    path = table(x, y, tmp_path / "log.parquet")
    weights = learned(session, f"linear_regression (learning_rate = 2, l2 = 0.5) {WHOLE.format(passes=400)}", path)
    scaled = standard(x)
    expected = np.linalg.solve(scaled.T @ scaled + 0.5 * ROWS * np.eye(3), scaled.T @ standard(y))
    np.testing.assert_allclose([weights[name] for name in NAMES], expected, atol=2e-3)


def test_one_pass_of_linear_regression_with_its_defaults_is_near_least_squares(session: xpsql.Session, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    x = random.normal(size=(20_000, 3)) * [1.0, 20.0, 0.01]
    city = random.integers(0, 50, 20_000)
    y = 250_000 + x @ [3_000.0, -400.0, 2e6] + 10_000 * np.sin(city) + 5_000 * random.normal(size=20_000)
    columns = {"label": y, "city": city, **dict(zip(NAMES, x.T, strict=True))}
    path = write(pa.table(columns), tmp_path / "log.parquet", 20_000)
    session.sql(f"TRAIN MODEL m USING linear_regression AS SELECT * FROM parquet.`{path}` LIMIT 15000")
    test = f"SELECT * FROM parquet.`{path}` OFFSET 15000"
    (row,) = session.sql(f"SELECT rmse FROM ML.EVALUATE(MODEL m, ({test}))").arrow().to_pylist()
    assert row["rmse"] < 1.1 * 5_000


def clicks() -> tuple[Doubles, NDArray[np.int32]]:
    x = inputs()
    signal = standard(x) @ [1.0, -2.0, 0.5] + 0.3
    return x, (np.random.default_rng(6).random(ROWS) < 1 / (1 + np.exp(-signal))).astype(np.int32)


@costly
def test_logistic_regression_finds_the_coefficients_of_scikit_learn(session: xpsql.Session, tmp_path: Path) -> None:
    x, y = clicks()
    path = table(x, y, tmp_path / "log.parquet")
    weights = learned(session, f"logistic_regression (learning_rate = 2, l2 = 0.01) {WHOLE.format(passes=500)}", path)
    peer = LogisticRegression(C=1 / (0.01 * ROWS), tol=1e-8, max_iter=1000).fit(standard(x), y)
    np.testing.assert_allclose([weights[name] for name in NAMES], peer.coef_[0], atol=3e-3)
    assert weights["(intercept)"] == pytest.approx(peer.intercept_[0], abs=3e-3)


@costly
def test_svm_finds_the_coefficients_of_scikit_learn(session: xpsql.Session, tmp_path: Path) -> None:
    x, y = clicks()
    path = table(x, y, tmp_path / "log.parquet")
    weights = learned(session, f"svm (learning_rate = 0.5, l2 = 0.1) {WHOLE.format(passes=1500)}", path)
    peer = LinearSVC(C=1 / (0.1 * ROWS), loss="hinge", intercept_scaling=100, tol=1e-8, max_iter=1_000_000, random_state=0)
    peer.fit(standard(x), y)
    np.testing.assert_allclose([weights[name] for name in NAMES], peer.coef_[0], atol=2e-2)
    assert weights["(intercept)"] == pytest.approx(peer.intercept_[0], abs=2e-2)


@lengthy
@pytest.mark.parametrize("optimizer", ["sgd (learning_rate = 0.01)", "adam", "ftrl", "momentum"])
def test_logistic_regression_takes_any_optimizer(session: xpsql.Session, tmp_path: Path, optimizer: str) -> None:
    x, y = clicks()
    path = table(x, y, tmp_path / "log.parquet")
    session.sql(
        f"TRAIN MODEL m USING logistic_regression OPERATORS (safety, {optimizer}) WITH (passes = 20) "
        f"AS SELECT * FROM parquet.`{path}`"
    )
    (row,) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{path}`))").arrow().to_pylist()
    assert row["auc"] > 0.8


def test_the_scale_of_labels_is_continued(session: xpsql.Session, tmp_path: Path) -> None:
    x, y = prices()
    folder = tmp_path / "log"
    folder.mkdir()
    for part, rows in enumerate(np.split(np.arange(ROWS), 2)):
        table(x[rows], y[rows], folder / f"{part}.parquet")
    session.sql(f"TRAIN MODEL m USING linear_regression AS SELECT * FROM parquet.`{folder / '0.parquet'}`")
    session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{folder / '1.parquet'}`")
    session.sql(f"TRAIN MODEL once USING linear_regression AS SELECT * FROM parquet.`{folder}`")
    query = f"SELECT predicted_label FROM ML.PREDICT(MODEL {{}}, (SELECT * FROM parquet.`{folder}`))"
    continued, once = (session.sql(query.format(name)).arrow()["predicted_label"].to_numpy() for name in ("m", "once"))
    np.testing.assert_allclose(continued, once, rtol=1e-5)
