"""Metrics of the order in which probabilities put examples.

Up to 65,536 examples are kept, and metrics are exact. Beyond that two histograms count negatives and positives in 2^16 equal
bins of the prediction's logit in [-16, 16]: sums of histograms merge exactly, and ties within a bin count one half.

The state is (predictions float32[n], positive bool[n]), (histograms int64[2, 65536],) while it grows, or packed,
(bins int32[k], counts int64[2, k]) without the empty bins. Where an example is taken out again and its prediction has changed,
a bin's count may be negative.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ps.transport.checks import check_shape, check_vector, check_within, refused
from .base import Doubles, Metric, Sample, State, Statistic
from .likelihood import log_odds

EXACT = 1 << 16
BINS = 1 << 16
LOGIT_LIMIT = 16.0
PARTS = 15


class Curve(NamedTuple):
    """Examples by prediction, ascending.

    Attributes:
        predictions: float64[k], distinct; for bins their middles.
        negatives, positives: int64[k], examples at each.
    """

    predictions: Doubles
    negatives: NDArray[np.int64]
    positives: NDArray[np.int64]


def zero() -> State:
    return np.empty(0, np.float32), np.empty(0, np.bool_)


def add(state: State, sample: Sample) -> State:
    """Take in a sample."""
    return merge(state, (sample.predictions.astype(np.float32), sample.labels > 0))


def merge(one: State, other: State) -> State:
    """Merge two states; histograms of the first are added to in place."""
    if is_exact(one) and is_exact(other) and len(one[0]) + len(other[0]) <= EXACT:
        return tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))
    histograms = counted(one)
    add_to(histograms, other)
    return (histograms,)


def take_out(state: State, sample: Sample) -> State:
    """Take a sample out again; of histograms, in place."""
    histograms = counted(state)
    histograms -= counted(add(zero(), sample))
    return (histograms,)


def is_exact(state: State) -> bool:
    """Return whether a state has the examples themselves."""
    return bool(state[0].dtype == np.float32)


def counted(state: State) -> NDArray[np.int64]:
    """Return the histograms of a state, its own where it has them."""
    if len(state) == 1:
        return state[0]
    histograms = np.zeros((2, BINS), np.int64)
    add_to(histograms, state)
    return histograms


def add_to(histograms: NDArray[np.int64], state: State) -> None:
    """Count a state in histograms, in place."""
    if len(state) == 1:
        histograms += state[0]
    elif is_exact(state):
        log_p, log_q = log_odds(state[0].astype(np.float64))
        bins = np.clip(((log_p - log_q) / LOGIT_LIMIT + 1) * (BINS / 2), 0, BINS - 1).astype(np.int64)
        np.add.at(histograms.reshape(-1), bins + BINS * state[1], 1)
    else:
        histograms[:, state[0]] += state[1]


def packed(state: State) -> State:
    """Return a state without empty bins."""
    if len(state) > 1:
        return state
    bins = np.flatnonzero(state[0].any(axis=0))
    return bins.astype(np.int32), state[0][:, bins]


def check(state: State) -> None:
    """Require a state; see Statistic."""
    kinds = [array.dtype.name for array in state]
    if kinds not in (["float32", "bool"], ["int32", "int64"]):
        raise refused("the state of ranking", "examples or bins", kinds)
    k = check_vector("the bins of a tally", state[0])
    if is_exact(state):
        check_shape("the labels of a tally", state[1], (k,))
        check_within("the examples of a tally", k, range(EXACT + 1))
        return
    check_shape("the counts of a tally", state[1], (2, k))
    for bin_number in (state[0].min(), state[0].max()) if k else ():
        check_within("the bins of a tally", int(bin_number), range(BINS))


RANKING = Statistic("ranking", zero, add, merge, check, packed, take_out)


def curve(state: State) -> Curve:
    """Return the examples of a state by prediction."""
    if is_exact(state):
        values, place = np.unique(state[0], return_inverse=True)
        every, positives = (np.bincount(place, weights, len(values)).astype(np.int64) for weights in (None, state[1]))
        return Curve(values.astype(np.float64), every - positives, positives)
    bins, (negatives, positives) = packed(state)
    return Curve(1 / (1 + np.exp(-((bins + 0.5) / (BINS / 2) - 1) * LOGIT_LIMIT)), negatives, positives)


def auc(state: State) -> float | None:
    """Return the area under the ROC curve; None unless both labels have occurred."""
    _, negatives, positives = curve(state)
    pairs = float(negatives.sum()) * float(positives.sum())
    if not pairs:
        return None
    below = np.cumsum(negatives) - negatives
    return float(np.clip((positives * (below + 0.5 * negatives)).sum() / pairs, 0, 1))


def pr_auc(state: State) -> float | None:
    """Return the area under the curve of precision over recall, in steps; None unless there are positives.

    Source: Davis and Goadrich, The Relationship Between Precision-Recall and ROC Curves, ICML 2006; its steps follow average
    precision, Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, equation 8.8.
    """
    _, negatives, positives = curve(state)
    total = positives.sum()
    if not total:
        return None
    right = np.cumsum(positives[::-1])
    predicted = right + np.cumsum(negatives[::-1])
    precise = right / np.maximum(predicted, 1)  # the highest may have been learned again at other scores
    return float(np.clip((positives[::-1] * precise).sum() / total, 0, 1))


def ece_of(rows: Doubles, labels: Doubles, predictions: Doubles) -> float | None:
    """Return the mean distance of labels from predictions in PARTS parts of about equal size, of sums in order of prediction.

    Source: Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015, with
    parts of equal size.
    """
    if rows.sum() <= 0:
        return None
    part = np.clip((np.cumsum(rows) - rows / 2) / rows.sum() * PARTS, 0, PARTS - 1).astype(np.int64)
    differences = np.bincount(part, labels, PARTS) - np.bincount(part, predictions, PARTS)
    return float(np.abs(differences).sum() / rows.sum())


def ece(state: State) -> float | None:
    """Return the expected calibration error; see ece_of."""
    predictions, negatives, positives = curve(state)
    rows = np.maximum(negatives + positives, 0).astype(np.float64)
    return ece_of(rows, positives.astype(np.float64), rows * predictions)


def calibration(state: State, parts: int) -> tuple[tuple[float, float, int], ...]:
    """Return mean prediction, mean label and examples of parts of about equal size, in order of prediction."""
    predictions, negatives, positives = curve(state)
    counts = negatives + positives
    if counts.sum() <= 0:
        return ()
    part = np.clip((np.cumsum(counts) - counts / 2) / counts.sum() * parts, 0, parts - 1).astype(np.int64)
    predicted, clicked, examples = (np.bincount(part, values, parts) for values in (counts * predictions, positives, counts))
    return tuple((float(predicted[i] / n), float(clicked[i] / n), int(n)) for i, n in enumerate(examples) if n > 0)


CLASSES = frozenset({"classes"})
AUC = Metric("auc", "area under the ROC curve, exact up to 65,536 examples", CLASSES, RANKING, auc, headline=True)
PR_AUC = Metric("pr_auc", "area under the curve of precision over recall", CLASSES, RANKING, pr_auc)
ECE = Metric(
    "ece",
    "expected calibration error: the mean distance of labels from predictions in 15 parts of equal size",
    CLASSES,
    RANKING,
    ece,
)
