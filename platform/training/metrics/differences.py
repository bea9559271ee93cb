"""Metrics of the differences between labels and predictions."""

from __future__ import annotations

import math

import numpy as np

from .base import Metric, Sample, State, Statistic, check_doubles, ratio, sums

SMALLEST_MEAN = 1e-9


def terms(sample: Sample) -> tuple[float, ...]:
    """Return examples, sums of labels and predictions, and of absolute and squared differences."""
    labels, predictions, _ = sample
    differences = labels - predictions
    return len(labels), labels.sum(), predictions.sum(), np.abs(differences).sum(), (differences**2).sum()


DIFFERENCES = sums("differences", 5, terms)


def pcopc(state: State) -> float | None:
    """Return the sum of predictions by that of labels."""
    _, labels, predictions, _, _ = state[0]
    return float(predictions / labels) if labels > 0 else None


def rmse(state: State) -> float | None:
    """Return the root of the mean squared difference."""
    mean = ratio(state[0][4], state[0][0])
    return None if mean is None else math.sqrt(mean)


MAE = Metric(
    "mae", "mean absolute difference of label and prediction", frozenset(), DIFFERENCES, lambda s: ratio(s[0][3], s[0][0])
)
RMSE = Metric("rmse", "root of the mean squared difference", frozenset(), DIFFERENCES, rmse)
PCOPC = Metric("pcopc", "sum of predictions divided by the sum of labels", frozenset({"labels"}), DIFFERENCES, pcopc)


def add_spread(state: State, sample: Sample) -> State:
    """Take in a sample: see SPREAD."""
    labels, predictions, _ = sample
    if not len(labels):
        return state
    mean = labels.mean()
    return merge_spread(
        state, (np.array([len(labels), mean, ((labels - mean) ** 2).sum(), ((labels - predictions) ** 2).sum()]),)
    )


def merge_spread(one: State, other: State) -> State:
    """Merge two states.

    Source: Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.
    """
    (n, mean, squares, errors), (m, others, more, wrong) = one[0], other[0]
    total = n + m
    if not total:
        return one
    apart = others - mean
    return (np.array([total, mean + apart * m / total, squares + more + apart**2 * n * m / total, errors + wrong]),)


SPREAD = Statistic("spread", lambda: (np.zeros(4),), add_spread, merge_spread, lambda state: check_doubles("spread", state, 4))
"""Examples, mean label, squared differences of labels from it, squared differences of predictions."""


def r2(state: State) -> float | None:
    """Return the share of the labels' variance that predictions explain."""
    unexplained = ratio(state[0][3], state[0][2])
    return None if unexplained is None else 1 - unexplained


R2 = Metric("r2", "share of the labels' variance that predictions explain", frozenset({"labels", "numbers"}), SPREAD, r2)


def relative(sample: Sample) -> tuple[float, ...]:
    """Return the examples whose label is not 0, and the sum of their relative differences."""
    labels, predictions, _ = sample
    some = labels != 0
    return int(np.count_nonzero(some)), float(np.abs((labels[some] - predictions[some]) / labels[some]).sum())


MAPE = Metric(
    "mape",
    "mean absolute difference divided by the label's size, without labels of 0",
    frozenset({"labels", "numbers"}),
    sums("relative differences", 2, relative),
    lambda s: ratio(s[0][1], s[0][0]),
)


def deviance(sample: Sample) -> tuple[float, ...]:
    """Return examples, and the sum of their deviances."""
    labels, means = sample.labels, np.maximum(sample.predictions, SMALLEST_MEAN)
    some = labels > 0
    surprise = (labels[some] * np.log(labels[some] / means[some])).sum()
    return len(labels), 2 * float(surprise - labels.sum() + means.sum())


POISSON_DEVIANCE = Metric(
    "poisson_deviance",
    "mean deviance of counts, twice the label times the logarithm of label by prediction, less their difference",
    frozenset({"labels", "counts"}),
    sums("deviances", 2, deviance),
    lambda s: ratio(s[0][1], s[0][0]),
)
