"""Calibration: a monotone function of a prediction's log odds, and a bias for each value of a column, fitted from tallies.

A prediction with log odds s becomes sigmoid(g(s) + b_v). g is linear between knots, so that AUC is what it was; b_v is what the
rows of a value of the column lack after g, shrunk towards 0 where they are few. Both are fitted from sums alone, which add up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Keys = NDArray[np.uint64]

BINS, LIMIT = 1024, 12.0
"""Of log odds; the outer bins have what lies beyond the limit."""
KNOTS = 32
LEAST_SLOPE = 0.01
FEW = 1000
"""Positives, or negatives, below which only two numbers are fitted."""
PER_KNOT = 100
MOST_VALUES = 1 << 16
LEAST_PRIOR = 20.0
LOWEST, HIGHEST = 1e-30, 1 - 2.0**-24
STEPS, ENOUGH = 100, 1e-10
NO_KEYS, NO_DOUBLES = np.empty(0, np.uint64), np.empty(0)
ISOTONIC, PLATT = "isotonic", "platt"


class Biases(NamedTuple):
    """What is added to the log odds of rows, by the keys of their values, ascending: uint64[n], float64[n]; 0 of others."""

    keys: Keys = NO_KEYS
    values: Doubles = NO_DOUBLES

    def of(self, keys: Keys) -> Doubles:
        """Return the biases of rows with these keys."""
        if not len(self.keys):
            return np.zeros(len(keys))
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.values[at], 0.0)


class RisingCurve(NamedTuple):
    """g: linear between knots, of a slope beyond them.

    Attributes:
        at, to: float64[k], ascending log odds, and what they become.
        slope: before the first knot and after the last.
        method: how it was fitted.
    """

    at: Doubles = np.zeros(1)
    to: Doubles = np.zeros(1)
    slope: float = 1.0
    method: str = ""

    def of(self, scores: Doubles) -> Doubles:
        """Return g of log odds."""
        beyond = scores - np.clip(scores, self.at[0], self.at[-1])
        return np.interp(scores, self.at, self.to) + self.slope * beyond


IDENTITY = RisingCurve()


class Calibrator(NamedTuple):
    """What makes predictions of a label of 0 or 1 calibrated ones.

    Attributes:
        shift: is added to all log odds last.
    """

    curve: RisingCurve = IDENTITY
    biases: Biases = Biases()
    shift: float = 0.0

    def of(self, predictions: NDArray[np.floating], keys: Keys | None) -> NDArray[np.float32]:
        """Return calibrated predictions, float32[n].

        Args:
            keys: of the values of the column that has biases, uint64[n]; None without one.
        """
        scores = self.curve.of(log_odds(predictions)) + self.shift
        if keys is not None:
            scores += self.biases.of(keys)
        return sigmoid(scores).astype(np.float32)


class Bins(NamedTuple):
    """Rows by the log odds of their predictions: of each bin how many there are, and the sums of labels and predictions."""

    rows: Doubles
    labels: Doubles
    predictions: Doubles

    @property
    def filled(self) -> Bins:
        """The bins that have rows."""
        some = self.rows > 0
        return Bins(*(values[some] for values in self))

    @property
    def scores(self) -> Doubles:
        """The log odds of the mean prediction of each bin that has rows."""
        return log_odds(self.predictions / self.rows)


class ValueSums(NamedTuple):
    """Rows by the value of a column: keys, ascending, how many there are, and the sums of labels and predictions."""

    keys: Keys
    rows: Doubles
    labels: Doubles
    predictions: Doubles


def log_odds(predictions: NDArray[np.floating]) -> Doubles:
    """Return the log odds of probabilities, finite."""
    p = np.clip(predictions.astype(np.float64), LOWEST, HIGHEST)
    return np.log(p) - np.log1p(-p)


def sigmoid(scores: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-np.clip(scores, -700, 700)))


def curve_of(bins: Bins, method: str) -> RisingCurve:
    """Return g: by isotonic regression, or by two numbers where the method says so or labels are few."""
    bins = bins.filled
    positives, negatives = bins.labels.sum(), (bins.rows - bins.labels).sum()
    if min(positives, negatives) <= 0:
        return IDENTITY
    if method == PLATT or min(positives, negatives) < FEW:
        return platt(bins)
    return knotted(bins, int(min(KNOTS, min(positives, negatives) // PER_KNOT)))


def platt(bins: Bins) -> RisingCurve:
    """Return a s + b that fits labels best, by Newton's method; g itself where they can be told apart perfectly.

    Source: Platt, "Probabilistic Outputs for Support Vector Machines", 1999, without its prior.
    """
    scores, a, b = bins.scores, 1.0, 0.0
    for _ in range(STEPS):
        p = sigmoid(a * scores + b)
        wrong, spread = bins.rows * p - bins.labels, bins.rows * p * (1 - p)
        gradient = np.array([(wrong * scores).sum(), wrong.sum()])
        h = np.array([[(spread * scores**2).sum(), (spread * scores).sum()], [(spread * scores).sum(), spread.sum()]])
        if abs(np.linalg.det(h)) < 1e-12 * max(1.0, h[0, 0] * h[1, 1]):
            b -= float(np.clip(gradient[1] / max(h[1, 1], 1e-12), -1, 1))  # one score: its mean alone can be told
            step = gradient[1:] / max(h[1, 1], 1e-12)
        else:
            step = np.clip(np.linalg.solve(h, gradient), -1, 1)
            a, b = a - step[0], b - step[1]
        if np.abs(step).max() < ENOUGH:
            break
    else:
        return IDENTITY
    return RisingCurve(np.zeros(1), np.array([b]), max(a, LEAST_SLOPE), PLATT)


def pooled(rows: Doubles, labels: Doubles) -> NDArray[np.int64]:
    """Return where the blocks begin in which isotonic regression has one value.

    Source: Ayer et al., "An Empirical Distribution Function for Sampling with Incomplete Information", 1955.
    """
    starts: list[int] = []
    sums: list[tuple[float, float]] = []
    for i, (n, y) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True)):
        start = i
        while sums and sums[-1][1] * n >= y * sums[-1][0]:
            n, y, start = n + sums[-1][0], y + sums[-1][1], starts.pop()
            sums.pop()
        starts.append(start)
        sums.append((n, y))
    return np.array(starts, np.int64)


def knotted(bins: Bins, knots: int) -> RisingCurve:
    """Return isotonic regression of labels on scores, made continuous: a knot for each group of about as many rows."""
    starts = pooled(bins.rows, bins.labels)
    blocks = Bins(*(np.add.reduceat(values, starts) for values in bins))
    middle = (np.cumsum(blocks.rows) - blocks.rows / 2) / blocks.rows.sum()
    group = np.minimum((middle * knots).astype(np.int64), knots - 1)
    first = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    rows, labels, predictions = (np.add.reduceat(values, first) for values in blocks)
    at, to = log_odds(predictions / rows), log_odds((labels + 0.5) / (rows + 1))
    for i in range(1, len(at)):  # one value for several scores would lose their order
        to[i] = max(to[i], to[i - 1] + LEAST_SLOPE * (at[i] - at[i - 1]))
    return RisingCurve(at, to, 1.0, ISOTONIC)


def biases_of(sums: ValueSums) -> Biases:
    """Return the biases of values whose predictions, after g, are summed: the posterior of a gamma prior of the ratio of labels
    to predictions, whose mean is 1, and whose variance is that of the values' ratios beyond chance.
    """
    total = sums.predictions.sum()
    if total <= 0 or sums.labels.sum() <= 0:
        return Biases()
    expected = sums.predictions * (sums.labels.sum() / total)
    chance = expected * np.maximum(1 - expected / np.maximum(sums.rows, 1), 0)
    variance = ((sums.labels - expected) ** 2 - chance).sum() / (expected**2).sum()
    if variance <= 0:
        return Biases()
    prior = max(1 / variance, LEAST_PRIOR)
    found = np.log((sums.labels + prior) / (expected + prior))
    kept = np.sort(np.argsort(-sums.rows, kind="stable")[:MOST_VALUES])
    return Biases(sums.keys[kept], found[kept])
