"""Metrics of labels that are one of several classes: an example is predicted to be of the likeliest one."""

from __future__ import annotations

import numpy as np

from ...ps.transport.checks import refused
from .base import Doubles, Metric, Sample, State, Statistic, ratio
from .likelihood import PROBABILITY_LIMIT

SHAPES = "float64[k, 3] and float64[1]"


def zero() -> State:
    """Return the state of no examples, whose classes are not known yet."""
    return np.zeros((0, 3)), np.zeros(1)


def add(state: State, sample: Sample) -> State:
    """Take in a sample: for each class the numbers of its examples, of predictions of it, and of right ones; and the sum of log
    losses."""
    labels, (rows, classes) = sample.labels.astype(np.int64), sample.predictions.shape
    predicted = sample.predictions.argmax(axis=1)
    counts = [np.bincount(of, minlength=classes) for of in (labels, predicted, labels[labels == predicted])]
    chosen = sample.predictions[np.arange(rows), labels]
    loss = -np.log(np.maximum(chosen, PROBABILITY_LIMIT)).sum()
    return merge(state, (np.stack(counts, axis=1).astype(np.float64), np.array([loss])))


def merge(one: State, other: State) -> State:
    """Merge two states."""
    if not len(one[0]) or not len(other[0]):
        return one if len(one[0]) else other
    return one[0] + other[0], one[1] + other[1]


def check(state: State) -> None:
    """Require a state of this statistic.

    Raises:
        TrainingError: it is invalid.
    """
    found = [(array.dtype.name, array.shape) for array in state]
    if len(state) != 2 or found != [("float64", (len(state[0]), 3)), ("float64", (1,))]:
        raise refused("the state of multiclass", SHAPES, found)


def accuracy(state: State) -> float | None:
    """Return the share of examples that are predicted right."""
    return ratio(state[0][:, 2].sum(), state[0][:, 0].sum())


def logloss(state: State) -> float | None:
    """Return the mean log loss."""
    return ratio(state[1][0], state[0][:, 0].sum())


def normalized_entropy(state: State) -> float | None:
    """Return the log loss divided by the log loss of predicting the classes' shares for every example."""
    counts = state[0][:, 0]
    if np.count_nonzero(counts) < 2:
        return None
    shares = counts[counts > 0] / counts.sum()
    return float(state[1][0] / counts.sum() / -(shares * np.log(shares)).sum())


def by_class(state: State, over: Doubles, under: Doubles) -> float | None:
    """Return the mean over the classes that occur, as labels or predictions, of a quotient, 0 where it divides by zero."""
    there = state[0][:, :2].any(axis=1)
    if not there.any():
        return None
    return float((over[there] / np.maximum(under[there], 1)).mean())


def precision(state: State) -> float | None:
    """Return the share of predictions of a class that are right, averaged over classes."""
    return by_class(state, state[0][:, 2], state[0][:, 1])


def recall(state: State) -> float | None:
    """Return the share of a class's examples that are predicted right, averaged over classes."""
    return by_class(state, state[0][:, 2], state[0][:, 0])


def f1(state: State) -> float | None:
    """Return the harmonic mean of a class's precision and recall, averaged over classes."""
    return by_class(state, 2 * state[0][:, 2], state[0][:, 0] + state[0][:, 1])


CLASSES = frozenset({"multiclass"})
COUNTED = Statistic("multiclass", zero, add, merge, check)
MULTICLASS = (
    Metric("logloss", "for classes: mean log loss of the label's class", CLASSES, COUNTED, logloss, headline=True),
    Metric(
        "normalized_entropy",
        "for classes: logloss divided by the logloss of their shares",
        CLASSES,
        COUNTED,
        normalized_entropy,
    ),
    Metric("accuracy", "for classes: share of examples whose likeliest class is the label", CLASSES, COUNTED, accuracy),
    Metric("precision", "for classes: its mean over classes", CLASSES, COUNTED, precision),
    Metric("recall", "for classes: its mean over classes", CLASSES, COUNTED, recall),
    Metric("f1", "for classes: its mean over classes", CLASSES, COUNTED, f1),
)
