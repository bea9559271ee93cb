"""Losses against their definitions, their links against what minimises them, and training with each."""

from __future__ import annotations

import itertools
import math
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance

import xpsql
from tests.cases import costly_after_first, lengthy, quick
from tests.training.log import log, write
from xpsql.algorithms.losses import LOSSES, LossOptions, loss_of

SCORES = np.array([-100.0, -2.0, -0.3, 0.0, 0.5, 2.0, 100.0], np.float32)
CLASSIFIERS = [name for name in LOSSES if loss_of(LossOptions(loss=name)).classifier]


def expected(name: str, score: float, label: float, gamma: float = 2.0) -> float:
    """Return a loss by its definition, in double precision."""
    margin = (2 * label - 1) * score
    q = 1 / (1 + np.exp(-np.float64(margin)))
    surprise = float(np.logaddexp(0, -margin))
    return {
        "logloss": surprise,
        "squared": (score - label) ** 2 / 2,
        "hinge": max(0.0, 1 - margin),
        "focal": float((1 - q) ** gamma * surprise),
        "quantile": abs(label - score) / 2,
        "poisson": math.exp(min(score, 20)) * (1 + max(score - 20, 0)) - label * score,
    }[name]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_loss_follows_its_definition_and_its_gradient_is_finite_everywhere(name: str, label: float) -> None:
    value = loss_of(LossOptions(loss=name)).value
    labels = jnp.full(len(SCORES), label)
    found = value(jnp.asarray(SCORES), labels)
    np.testing.assert_allclose(found, [expected(name, float(score), label) for score in SCORES], rtol=1e-5, atol=1e-6)
    assert np.isfinite(jax.grad(lambda s: value(s, labels).sum())(jnp.asarray(SCORES))).all()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_positive_weight_multiplies_the_loss_of_positive_examples_alone(name: str) -> None:
    plain, heavy = loss_of(LossOptions(loss=name)), loss_of(LossOptions(loss=name, positive_weight=3.0))
    scores, labels = jnp.asarray(SCORES[1:-1]), jnp.array([0.0, 1.0, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(heavy.value(scores, labels), plain.value(scores, labels) * np.array([1, 3, 1, 3, 1]), rtol=1e-6)


@pytest.mark.parametrize("positive_weight", [1e-30, 3.0, 1e30])
def test_positive_weight_moves_the_baseline_to_its_share_of_the_labels(positive_weight: float) -> None:
    baseline = loss_of(LossOptions(positive_weight=positive_weight)).baseline
    assert baseline is not None
    assert baseline(0.25) == pytest.approx(math.log(positive_weight / 3))


@pytest.mark.parametrize("options", [LossOptions(), *(LossOptions(loss="focal", gamma=g) for g in (0.0, 0.5, 2.0, 5.0))])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9])
def test_the_link_returns_the_rate_of_positives_where_the_expected_loss_is_least(options: LossOptions, rate: float) -> None:
    loss = loss_of(options)
    scores = jnp.linspace(-6, 6, 240_001)
    expected_loss = rate * loss.value(scores, jnp.ones(1)) + (1 - rate) * loss.value(scores, jnp.zeros(1))
    best = scores[jnp.argmin(expected_loss)]
    assert float(loss.link(best)) == pytest.approx(rate, abs=0.01)


@pytest.mark.parametrize("gamma", [0.0, 2.0, 5.0])
def test_the_link_of_focal_rises_from_0_to_1_and_stays_finite(gamma: float) -> None:
    predictions = np.asarray(loss_of(LossOptions(loss="focal", gamma=gamma)).link(jnp.linspace(-50, 50, 501)))
    assert (np.diff(predictions) >= 0).all()
    assert (predictions[0], predictions[-1]) == pytest.approx((0, 1), abs=1e-4)


@costly_after_first
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_ranks_whatever_its_loss(session: xpsql.Session, tmp_path: Path, name: str) -> None:
    path = write(log(12_000), tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL m USING xftrl(loss = '{name}') IGNORE (ts) AS SELECT * FROM parquet.`{path}`")
    (found,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{path}`))").arrow().to_pylist()
    assert found["auc"] > 0.72
    assert name == "hinge" or found["pcopc"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("algorithm", ["xftrl", "fm"])
def test_squared_learns_numbers(session: xpsql.Session, tmp_path: Path, algorithm: str) -> None:
    path = write(pa.table({"x": ["a", "b"] * 400, "label": [3.5, -2.0] * 400}), tmp_path / "numbers.parquet")
    query = f"SELECT * FROM parquet.`{path}`"
    session.sql(f"TRAIN MODEL m USING {algorithm}(loss = 'squared', alpha = 1) WITH (batch_size = 8) AS {query}")
    rows = session.sql(f"SELECT DISTINCT x, predicted_label AS p FROM ML.PREDICT(MODEL m, ({query}))").arrow().to_pylist()
    assert {row["x"]: row["p"] for row in rows} == pytest.approx({"a": 3.5, "b": -2}, abs=0.1)


SQUARED = ["xftrl", "fm", "ffm", "xnn", "wide_deep", "deepfm", "dcn", "xsvd (user = (x), item = (y), loss = 'squared')"]
SCALES = [1e-6, 1e6]
QUICK_SQUARED = [(name, SCALES[number % 2]) for number, name in enumerate(SQUARED)]


@lengthy
@pytest.mark.parametrize(("algorithm", "scale"), quick(itertools.product(SQUARED, SCALES), QUICK_SQUARED))
def test_squared_learns_numbers_of_any_size_and_place(
    session: xpsql.Session, tmp_path: Path, algorithm: str, scale: float
) -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 4, (2, 3000))
    label = scale * (1000 + x - 2 * y + random.normal(0, 0.1, 3000))
    path = write(pa.table({"x": x, "y": y, "label": label}), tmp_path / "numbers.parquet")
    use = algorithm if "(" in algorithm else f"{algorithm} (loss = 'squared')"
    session.sql(f"TRAIN MODEL m USING {use} AS SELECT * FROM parquet.`{path}`")
    (found,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{path}`))").arrow().to_pylist()
    assert found["rmse"] < 0.5 * label.std()


def counted(random: np.random.Generator, rows: int, mean: float) -> pa.Table:
    """Return counts whose logarithms of means are sums over x and y, and numbers whose spread depends on x."""
    x, y = random.integers(0, 4, (2, rows))
    counts = random.poisson(mean * np.exp(0.5 * x - 0.3 * y))
    number = 50 + x + (1 + x) * random.exponential(1, rows)
    return pa.table({"x": x.astype(str), "y": y.astype(str), "count": counts, "number": number})


NETWORKS = ["fm", "ffm", "xnn", "wide_deep", "deepfm", "dcn", "final"]
NUMERIC = ["xftrl", *NETWORKS, "owlqn", "xgboost", "xsvd (user = (x), item = (y), {})"]
POISSON, QUANTILE = LOSSES_OF_NUMBERS = ["loss = 'poisson'", "loss = 'quantile', at = 0.9"]
QUICK = [(name, POISSON if number % 2 else QUANTILE) for number, name in enumerate(NUMERIC)]
"""Each algorithm with one of the losses, each loss with half of the algorithms."""


@lengthy
@pytest.mark.parametrize(("algorithm", "loss"), quick(itertools.product(NUMERIC, LOSSES_OF_NUMBERS), QUICK))
def test_counts_and_quantiles_are_learned_by_every_algorithm_that_takes_numbers(
    session: xpsql.Session, tmp_path: Path, algorithm: str, loss: str
) -> None:
    if algorithm == "xgboost":
        pytest.importorskip("xgboost")
    rows = counted(np.random.default_rng(0), 12_000, 5.0)
    path = write(rows, tmp_path / "numbers.parquet")
    label, other = ("count", "number") if "poisson" in loss else ("number", "count")
    use = algorithm.format(loss) if "{" in algorithm else f"{algorithm} ({loss})"
    session.sql(f"TRAIN MODEL m USING {use} LABEL {label} IGNORE ({other}) AS SELECT * FROM parquet.`{path}`")
    (found,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{path}`))").arrow().to_pylist()
    labels = rows[label].to_numpy().astype(np.float64)
    if label == "count":
        assert found["pcopc"] == pytest.approx(1, abs=0.1)
        assert found["poisson_deviance"] < 0.35 * mean_poisson_deviance(labels, np.full(len(labels), labels.mean()))
        assert found["pinball"] is found["coverage"] is None
    else:
        assert found["coverage"] == pytest.approx(0.9, abs=0.04)
        assert found["pinball"] < 0.97 * mean_pinball_loss(labels, np.full(len(labels), np.quantile(labels, 0.9)), alpha=0.9)
        assert found["poisson_deviance"] is None


def test_metrics_of_counts_and_quantiles_are_those_of_scikit_learn(session: xpsql.Session, tmp_path: Path) -> None:
    rows = counted(np.random.default_rng(1), 3000, 0.3)
    path = write(rows, tmp_path / "numbers.parquet")
    for use, label, metric, peer in (
        ("xftrl (loss = 'poisson')", "count", "poisson_deviance", mean_poisson_deviance),
        ("fm (loss = 'quantile', at = 0.2)", "number", "pinball", partial(mean_pinball_loss, alpha=0.2)),
    ):
        query = f"SELECT x, y, {label} FROM parquet.`{path}`"
        session.sql(f"TRAIN OR REPLACE MODEL m USING {use} LABEL {label} AS {query}")
        (found,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, ({query}))").arrow().to_pylist()
        said = session.sql(f"SELECT {label} AS y, predicted_{label} AS p FROM ML.PREDICT(MODEL m, ({query}))").arrow()
        labels, predictions = (said[name].to_numpy().astype(np.float64) for name in ("y", "p"))
        assert found[metric] == pytest.approx(peer(labels, predictions), rel=1e-6)
        if metric == "pinball":
            assert found["coverage"] == pytest.approx((labels <= predictions).mean())


@lengthy
@pytest.mark.parametrize("mean", [1e-3, 1e4])
@pytest.mark.parametrize("algorithm", ["xftrl", "fm", "xnn"])
def test_counts_of_any_size_are_learned(session: xpsql.Session, tmp_path: Path, algorithm: str, mean: float) -> None:
    path = write(counted(np.random.default_rng(2), 20_000, mean), tmp_path / "numbers.parquet")
    query = f"SELECT x, y, count FROM parquet.`{path}`"
    session.sql(f"TRAIN MODEL m USING {algorithm} (loss = 'poisson') LABEL count AS {query}")
    (found,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, ({query}))").arrow().to_pylist()
    assert found["pcopc"] == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("algorithm", ["xftrl", "owlqn", "xgboost"])
def test_labels_below_0_are_no_counts(session: xpsql.Session, tmp_path: Path, algorithm: str) -> None:
    path = write(pa.table({"x": ["a", "b"] * 40, "label": [2.0, -1.0] * 40}), tmp_path / "numbers.parquet")
    use = f"TRAIN MODEL m USING {algorithm} (loss = 'poisson') AS"
    for query, error in (
        (f"SELECT * FROM parquet.`{path}`", xpsql.StatementError),
        (f"SELECT x, label - 1 AS label FROM parquet.`{path}`", xpsql.DataError),
    ):
        with pytest.raises(error, match=r"LABEL label must be a finite number of at least 0.* has -"):
            session.sql(f"{use} {query}")


def test_continue_refuses_a_loss_whose_scores_are_logarithms(session: xpsql.Session) -> None:
    session.sql("TRAIN MODEL m USING xftrl AS SELECT 1 AS label, 'a' AS x")
    with pytest.raises(xpsql.StatementError, match="learned its labels in another unit than xftrl does"):
        session.sql("CONTINUE MODEL m USING xftrl (loss = 'poisson') AS SELECT 3 AS label, 'a' AS x")
    session.sql("TRAIN OR REPLACE MODEL m USING xftrl (loss = 'poisson') AS SELECT 3 AS label, 'a' AS x")
    session.sql("CONTINUE MODEL m AS SELECT 3 AS label, 'a' AS x")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("xftrl (loss = 'quantile', at = 1)", r"at .*a value in \(0, 1\), got 1"),
        ("xftrl (loss = 'squared', at = 0.9)", "at .*loss = 'quantile'"),
        ("xftrl (loss = 'poisson') LABEL label CALIBRATE", "CALIBRATE"),
        ("xftrl (loss = 'poisson') LABEL label WITH (base_rate = 0)", "base_rate = 0 must be above 0"),
    ],
)
def test_options_of_losses_of_numbers_are_checked(session: xpsql.Session, use: str, message: str) -> None:
    with pytest.raises(xpsql.StatementError, match=message):
        session.sql(f"TRAIN MODEL m USING {use} AS SELECT 1 AS label, 'a' AS x")


@pytest.mark.parametrize("algorithm", ["xftrl", "xgboost"])
def test_a_weight_of_positives_is_refused_where_labels_are_any_numbers(session: xpsql.Session, algorithm: str) -> None:
    with pytest.raises(xpsql.StatementError, match=r"positive_weight is for labels .* clause WEIGHT.* at .positive_weight"):
        session.sql(f"TRAIN MODEL m USING {algorithm}(loss = 'squared', positive_weight = 2) AS SELECT 1 AS label, 'a' AS x")


def test_continue_refuses_a_loss_whose_labels_have_another_unit(session: xpsql.Session) -> None:
    session.sql("TRAIN MODEL m USING xftrl AS SELECT 1 AS label, 'a' AS x")
    with pytest.raises(xpsql.StatementError, match="Version 1 of m learned its labels in another unit than xftrl does"):
        session.sql("CONTINUE MODEL m USING xftrl (loss = 'squared') AS SELECT 3 AS label, 'a' AS x")


def test_an_unknown_loss_is_refused_with_the_names(session: xpsql.Session) -> None:
    with pytest.raises(
        xpsql.StatementError, match=r"Did you mean focal\? Valid: focal, hinge, logloss, poisson, quantile, squared"
    ):
        session.sql("TRAIN MODEL m USING xftrl(loss = 'vocal') AS SELECT 1 AS label, 'a' AS x")
