"""Bootstrap intervals of metrics: of a difference between two models on the same examples, most of the chance cancels out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..metrics.likelihood import log_odds

Doubles = NDArray[np.float64]
Weights = NDArray[np.uint8]

REPLICATES = 1000
LEVEL = 0.95
ELEMENTS = 1 << 22
"""Weights that are drawn at a time, of a byte each."""
QUANTILES = 1 << 16

Metric = Callable[[Weights], Doubles]
"""Weights of the examples, uint8[replicates, n] -> the metric of each replicate, float64[replicates]; NaN where it is
undefined."""


class Interval(NamedTuple):
    """A metric of two models, its difference, and the confidence interval of the difference."""

    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None


def intervals(pairs: list[tuple[Metric, Metric]], examples: int, groups: NDArray[np.int64], seed: int) -> list[Interval]:
    """Return the interval of each pair of metrics, of two models on the same examples.

    A replicate weighs each example, or all examples of a group alike, by a number from a Poisson distribution of mean 1, nearly
    as drawing so many examples with replacement does; both models get the same weights. Bounds are quantiles of the
    differences.

    Source: Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics 1979; Chamandy, Muralidharan, Najmi
    and Naidu, "Estimating Uncertainty for Massive Data Streams", Google 2012, for the weights.

    Args:
        groups: int64[examples], 0 to the number of groups less 1; empty where every example is one.
    """
    found: list[list[tuple[Doubles, Doubles]]] = [[] for _ in pairs]
    for weights in drawn(examples, groups, np.random.default_rng(seed)):
        for kept, (first, second) in zip(found, pairs, strict=True):
            kept.append((first(weights), second(weights)))
    all_once = np.ones((1, examples), np.uint8)
    return [
        interval(first(all_once)[0], second(all_once)[0], np.concatenate([one - other for one, other in kept]))
        for kept, (first, second) in zip(found, pairs, strict=True)
    ]


def interval(first: float, second: float, differences: Doubles) -> Interval:
    """Return the interval of two values from their replicates."""
    if math.isnan(first) or math.isnan(second):
        return Interval(number(first), number(second), None, None, None)
    known = differences[~np.isnan(differences)]
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(known) else (math.nan, math.nan)
    return Interval(float(first), float(second), float(first - second), number(low), number(high))


def number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def drawn(examples: int, groups: NDArray[np.int64], random: np.random.Generator) -> Iterator[Weights]:
    """Yield the weights of REPLICATES replicates, uint8[some, examples] each."""
    table = poisson_quantiles()
    units = int(groups.max()) + 1 if len(groups) else examples
    some = max(1, min(REPLICATES, ELEMENTS // max(examples, 1)))
    for start in range(0, REPLICATES, some):
        numbers = random.integers(0, QUANTILES, (min(some, REPLICATES - start), units), np.uint16)
        weights = table[numbers]
        yield weights.take(groups, axis=1) if len(groups) else weights


def poisson_quantiles() -> Weights:
    """Return the quantiles of the Poisson distribution of mean 1 at QUANTILES equal steps."""
    below = np.cumsum([math.exp(-1) / math.factorial(count) for count in range(16)])
    return np.searchsorted(below, (np.arange(QUANTILES) + 0.5) / QUANTILES).astype(np.uint8)


def quotient(over: Doubles, under: Doubles) -> Doubles:
    """Return quotients, NaN where they divide by zero."""
    found: Doubles = np.divide(over, under, out=np.full(len(under), np.nan), where=under > 0)
    return found


def auc(labels: NDArray[np.bool_], predictions: NDArray[np.float32]) -> Metric:
    """Return the area under the ROC curve as a metric of weights; equal predictions count one half."""
    positive = np.flatnonzero(labels)
    negative = np.flatnonzero(~labels)
    negative = negative[np.argsort(predictions[negative], kind="stable")]
    ascending = predictions[negative]
    below, upto = (np.searchsorted(ascending, predictions[positive], side) for side in ("left", "right"))

    def value(weights: Weights) -> Doubles:
        cumulative = np.zeros((len(weights), len(negative) + 1), np.int32)
        np.cumsum(weights.take(negative, axis=1), axis=1, dtype=np.int32, out=cumulative[:, 1:])
        mine, beaten = weights.take(positive, axis=1), cumulative.take(below, axis=1)
        beaten += cumulative.take(upto, axis=1)
        won = np.einsum("rp,rp->r", mine, beaten, dtype=np.float64) / 2
        return quotient(won, mine.sum(axis=1, dtype=np.float64) * cumulative[:, -1])

    return value


def mean(losses: Doubles) -> Metric:
    """Return the mean of float64[n] losses as a metric of weights."""

    def value(weights: Weights) -> Doubles:
        whole = weights.sum(axis=1, dtype=np.int64)
        return quotient(weights.astype(np.float64) @ losses, whole)

    return value


def logloss(labels: NDArray[np.bool_], predictions: NDArray[np.float32]) -> Metric:
    """Return the mean log loss as a metric of weights."""
    log_p, log_q = log_odds(predictions.astype(np.float64))
    return mean(-np.where(labels, log_p, log_q))


def rmse(labels: NDArray[np.float32], predictions: NDArray[np.float32]) -> Metric:
    """Return the root of the mean squared difference as a metric of weights."""
    squares = mean((labels.astype(np.float64) - predictions) ** 2)
    return lambda weights: np.sqrt(squares(weights))


def mae(labels: NDArray[np.float32], predictions: NDArray[np.float32]) -> Metric:
    """Return the mean absolute difference as a metric of weights."""
    return mean(np.abs(labels.astype(np.float64) - predictions))
