"""Metrics of decisions: an example is predicted positive where its probability is at least one half."""

from __future__ import annotations

import numpy as np

from .base import Doubles, Metric, Sample, State, ratio, sums

THRESHOLD = 0.5


def confusion(labels: Doubles, predictions: Doubles, threshold: float) -> tuple[int, int, int, int]:
    """Return how many examples are true positives, false positives, false negatives and true negatives."""
    positive, predicted = labels > 0, predictions >= threshold
    right, predicted_positive = int(np.count_nonzero(positive & predicted)), int(np.count_nonzero(predicted))
    missed = int(np.count_nonzero(positive)) - right
    return right, predicted_positive - right, missed, len(labels) - predicted_positive - missed


def terms(sample: Sample) -> tuple[int, ...]:
    """Return the counts of `confusion` at one half."""
    return confusion(sample.labels, sample.predictions, THRESHOLD)


DECISIONS = sums("decisions", 4, terms)


def accuracy(state: State) -> float | None:
    """Return the share of decisions that are right."""
    right, _, _, rest = state[0]
    return ratio(right + rest, state[0].sum())


def precision(state: State) -> float | None:
    """Return the share of examples predicted positive that are positive."""
    right, wrong, _, _ = state[0]
    return ratio(right, right + wrong)


def recall(state: State) -> float | None:
    """Return the share of positives that are predicted positive."""
    right, _, missed, _ = state[0]
    return ratio(right, right + missed)


def f1(state: State) -> float | None:
    """Return the harmonic mean of precision and recall."""
    right, wrong, missed, _ = state[0]
    return ratio(2 * right, 2 * right + wrong + missed)


CLASSES = frozenset({"classes"})
ACCURACY = Metric("accuracy", "share of examples predicted correctly, at a threshold of 0.5", CLASSES, DECISIONS, accuracy)
PRECISION = Metric("precision", "share of examples predicted positive that are positive, at 0.5", CLASSES, DECISIONS, precision)
RECALL = Metric("recall", "share of positives that are predicted positive, at 0.5", CLASSES, DECISIONS, recall)
F1 = Metric("f1", "harmonic mean of precision and recall, at 0.5", CLASSES, DECISIONS, f1)
