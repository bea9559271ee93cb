"""Metrics against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
from numpy.typing import NDArray

from xpsql.platform.errors import TrainingError
from xpsql.platform.training.metrics import METRICS
from xpsql.platform.training.metrics.groups import gauc_sums
from xpsql.platform.training.metrics.metrics import Metrics, Targets


def metrics_of(measured: str) -> Metrics:
    return Metrics(Targets.of(["label"], measured, grouped=False).traits)


def exact_auc(labels: NDArray[np.float32], predictions: NDArray[np.float32]) -> float:
    difference = predictions[labels > 0][:, None] - predictions[labels == 0][None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def sample(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    predictions = (1 / (1 + np.exp(-random.normal(-1.5, 1.5, n)))).astype(np.float32)
    return (random.random(n) < predictions).astype(np.float32), predictions


def test_auc_is_within_1e_4_of_the_exact_one() -> None:
    labels, predictions = sample(4000, 1)
    metrics = metrics_of("classes")
    metrics.add(labels, predictions)
    assert metrics.as_dict()["auc"] == pytest.approx(exact_auc(labels, predictions), abs=1e-4)


def test_what_is_measured_is_what_progress_and_conditions_name() -> None:
    assert list(metrics_of("classes").as_dict()) == ["examples", *dict.fromkeys(m.name for m in METRICS if m.name != "gauc")]


def test_batches_add_up_to_the_whole() -> None:
    labels, predictions = sample(1000, 2)
    parts, whole = metrics_of("classes"), metrics_of("classes")
    whole.add(labels, predictions)
    for at in range(0, 1000, 7):
        parts.add(labels[at : at + 7], predictions[at : at + 7])
    assert parts.as_dict() == pytest.approx(whole.as_dict())


@pytest.mark.parametrize("measured", ["classes", "numbers"])
def test_predictions_that_are_no_numbers_are_an_error_that_says_where_to_look(measured: str) -> None:
    metrics = metrics_of(measured)
    metrics.add(np.zeros(2, np.float32), np.array([0.5, np.nan], np.float32))
    with pytest.raises(TrainingError, match=r"The model predicts NaN: .* Look for huge values"):
        metrics.as_dict()


def test_metrics_follow_their_definitions() -> None:
    labels, predictions = sample(500, 3)
    metrics = metrics_of("classes")
    metrics.add(labels, predictions)
    p, y = predictions.astype(np.float64), labels.astype(np.float64)
    logloss = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
    rate = y.mean()
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    found = metrics.as_dict()
    assert found["examples"] == 500
    assert found["logloss"] == pytest.approx(logloss)
    assert found["normalized_entropy"] == pytest.approx(logloss / entropy)
    assert found["mae"] == pytest.approx(np.abs(y - p).mean())
    assert found["rmse"] == pytest.approx(np.sqrt(((y - p) ** 2).mean()))
    assert found["pcopc"] == pytest.approx(p.sum() / y.sum())


def test_what_one_label_cannot_tell_is_none() -> None:
    metrics = metrics_of("classes")
    metrics.add(np.zeros(3, np.float32), np.full(3, 0.1, np.float32))
    found = metrics.as_dict()
    assert (found["auc"], found["pcopc"], found["normalized_entropy"]) == (None, None, None)


@pytest.mark.parametrize("measured", ["classes", "numbers"])
def test_no_examples_tell_nothing(measured: str) -> None:
    found = metrics_of(measured).as_dict()
    assert found.pop("examples") == 0
    assert set(found.values()) == {None}


def test_certain_predictions_have_a_finite_logloss() -> None:
    metrics = metrics_of("classes")
    metrics.add(np.array([0, 1], np.float32), np.array([1, 0], np.float32))
    assert np.isfinite(metrics.as_dict()["logloss"] or np.nan)
    assert metrics.as_dict()["auc"] == 0.0


def test_gauc_is_the_mean_of_group_aucs_by_size() -> None:
    labels, predictions = sample(600, 4)
    predictions = np.round(predictions, 1)  # ties
    groups = np.random.default_rng(5).integers(0, 40, 600)
    total = weight = 0.0
    for group in range(40):
        mine = groups == group
        if 0 < labels[mine].sum() < mine.sum():
            total += mine.sum() * exact_auc(labels[mine], predictions[mine])
            weight += mine.sum()
    assert gauc_sums(groups, labels, predictions) == pytest.approx((total, weight))
    assert gauc_sums(np.arange(600), labels, predictions) == (0, 0)


def test_auc_is_exact_up_to_65536_examples_however_they_are_counted() -> None:
    labels, predictions = sample(1 << 16, 6)
    predictions = np.round(predictions, 2)  # ties
    whole, parts = metrics_of("classes"), metrics_of("classes")
    whole.add(labels, predictions)
    for at in range(0, len(labels), 9000):
        other = metrics_of("classes")
        other.add(labels[at : at + 9000], predictions[at : at + 9000])
        parts.take(other.tally())
    expected = pytest.approx(sklearn.metrics.roc_auc_score(labels, predictions), abs=1e-12)
    assert whole.as_dict()["auc"] == parts.as_dict()["auc"] == expected


def test_beyond_65536_examples_ranks_are_within_1e_4_and_tallies_add_up() -> None:
    labels, predictions = sample(100_000, 7)
    whole, parts = metrics_of("classes"), metrics_of("classes")
    whole.add(labels, predictions)
    for piece in (slice(0, 70_000), slice(70_000, 70_100), slice(70_100, None)):
        other = metrics_of("classes")
        other.add(labels[piece], predictions[piece])
        parts.take(other.tally())
    assert whole.as_dict()["auc"] == pytest.approx(sklearn.metrics.roc_auc_score(labels, predictions), abs=1e-4)
    assert whole.as_dict()["pr_auc"] == pytest.approx(sklearn.metrics.average_precision_score(labels, predictions), abs=1e-4)
    assert parts.as_dict() == pytest.approx(whole.as_dict())
    assert sum(examples for _, _, examples in whole.calibration(20)) == 100_000


def test_metrics_of_classes_are_those_of_scikit_learn() -> None:
    labels, predictions = sample(3000, 8)
    metrics = metrics_of("classes")
    metrics.add(labels, predictions)
    found, reported = metrics.as_dict(), predictions >= 0.5
    assert found["pr_auc"] == pytest.approx(sklearn.metrics.average_precision_score(labels, predictions))
    for name in ("accuracy", "precision", "recall", "f1"):
        assert found[name] == pytest.approx(getattr(sklearn.metrics, f"{name}_score")(labels, reported))
    assert (found["r2"], found["mape"]) == (None, None)


def test_metrics_of_numbers_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(9)
    labels = random.normal(1e4, 3, 3000).astype(np.float32)
    predictions = (labels + random.normal(0, 1, 3000)).astype(np.float32)
    whole, parts = metrics_of("numbers"), metrics_of("numbers")
    whole.add(labels, predictions)
    for at in range(0, 3000, 700):
        other = metrics_of("numbers")
        other.add(labels[at : at + 700], predictions[at : at + 700])
        parts.take(other.tally())
    for found in (whole.as_dict(), parts.as_dict()):
        assert found["r2"] == pytest.approx(sklearn.metrics.r2_score(labels, predictions))
        assert found["mape"] == pytest.approx(sklearn.metrics.mean_absolute_percentage_error(labels, predictions))
        assert (found["auc"], found["f1"]) == (None, None)


def test_labels_of_zero_have_no_relative_difference() -> None:
    metrics = metrics_of("numbers")
    metrics.add(np.array([0, 2], np.float32), np.array([1, 3], np.float32))
    assert metrics.as_dict()["mape"] == 0.5
