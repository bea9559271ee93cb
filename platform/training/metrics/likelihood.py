"""Metrics of probabilities by the likelihood of the labels."""

from __future__ import annotations

import numpy as np

from .base import Metric, Sample, State, ratio, sums

PROBABILITY_LIMIT = 1e-7


def log_odds(predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of probabilities and of their complements, finite."""
    p = np.clip(predictions, PROBABILITY_LIMIT, 1 - PROBABILITY_LIMIT)
    return np.log(p), np.log(1 - p)


def terms(sample: Sample) -> tuple[float, ...]:
    """Return examples, positives, and the sum of log losses."""
    log_p, log_q = log_odds(sample.predictions)
    positive = sample.labels > 0
    return len(positive), int(np.count_nonzero(positive)), -float(np.where(positive, log_p, log_q).sum())


LIKELIHOOD = sums("likelihood", 3, terms)


def normalized_entropy(state: State) -> float | None:
    """Return the log loss divided by the log loss of predicting the mean label for every example.

    Source: He et al., Practical Lessons from Predicting Clicks on Ads at Facebook, ADKDD 2014, equation 1.
    """
    examples, positives, losses = state[0]
    if not 0 < positives < examples:
        return None
    rate = positives / examples
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log1p(-rate))
    return float(losses / examples / entropy)


CLASSES = frozenset({"classes"})
LOGLOSS = Metric("logloss", "mean log loss", CLASSES, LIKELIHOOD, lambda s: ratio(s[0][2], s[0][0]), headline=True)
NORMALIZED_ENTROPY = Metric(
    "normalized_entropy", "logloss divided by the logloss of the mean label", CLASSES, LIKELIHOOD, normalized_entropy
)
