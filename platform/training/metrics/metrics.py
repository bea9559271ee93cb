"""Metrics of predictions, accumulated batch by batch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ...errors import no_number
from ...ps.transport.checks import COUNT, check_shape, check_vector, check_within, refused

BINS = 1 << 16
LOGIT_LIMIT = 16.0
PROBABILITY_LIMIT = 1e-7
PENDING = 1 << 14
OF_CLASSES = ("auc", "logloss", "normalized_entropy", "gauc")
"""Metrics of labels that are 0 or 1."""
OF_LABELS = ("pcopc",)
"""Other metrics that mean nothing where there are no labels."""
SUMS = ("labels", "predictions", "absolute differences", "squared differences", "log losses")

Floats = NDArray[np.float32]


class Tally(NamedTuple):
    """Metrics as they travel: what several workers counted adds up exactly.

    Attributes:
        sums: float64[6]: examples, and SUMS over them.
        bins: int32[k], the bins of the histogram that are not empty.
        counts: int64[2, k], negatives and positives in those bins.
    """

    sums: NDArray[np.float64]
    bins: NDArray[np.int32]
    counts: NDArray[np.int64]


def check_tally(tally: Tally, num_bins: int) -> None:
    """Require a tally that histograms with so many bins can take in.

    Raises:
        TrainingError: it is none.
    """
    check_shape("the sums of a tally", tally.sums, (1 + len(SUMS),))
    k = check_vector("the bins of a tally", tally.bins)
    check_shape("the counts of a tally", tally.counts, (2, k))
    if not 0 <= tally.sums[0] < COUNT.stop:
        raise refused("the examples of a tally", "a count", tally.sums[0])
    for bin_number in (tally.bins.min(), tally.bins.max()) if k else ():
        check_within("the bins of a tally", int(bin_number), range(num_bins))


class Metrics:
    """Running metrics of one label.

    AUC comes from two histograms, of positives and negatives, over 2^16 equal bins of the prediction's logit in [-16, 16]:
    sums of histograms merge exactly, and ties within a bin count one half.

    Args:
        classifier: labels are 0 or 1 and predictions probabilities; else only mae and rmse mean something.
    """

    def __init__(self, classifier: bool) -> None:
        self.classifier = classifier
        self.examples = 0
        self._sums = np.zeros(len(SUMS))
        self.histogram = np.zeros((2, BINS), np.int64) if classifier else np.zeros((2, 0), np.int64)
        self._waiting: list[tuple[Floats, Floats]] = []
        self._num_waiting = 0

    def add(self, labels: Floats, predictions: Floats) -> None:
        """Take in float32[n] labels and predictions."""
        self.examples += len(labels)
        self._waiting.append((labels, predictions))
        self._num_waiting += len(labels)
        if self._num_waiting >= PENDING:
            self._settle()

    def tally(self) -> Tally:
        """Return what was counted."""
        self._settle()
        bins = np.flatnonzero(self.histogram.any(axis=0))
        return Tally(np.append(float(self.examples), self._sums), bins.astype(np.int32), self.histogram[:, bins])

    @classmethod
    def of(cls, classifier: bool, tallies: Iterable[Tally]) -> Self:
        """Return the metrics of what several counted."""
        metrics = cls(classifier)
        for tally in tallies:
            metrics.take(tally)
        return metrics

    def take(self, tally: Tally) -> None:
        """Take in what another counted.

        Raises:
            TrainingError: it is no tally of this label's.
        """
        check_tally(tally, self.histogram.shape[1])
        self.examples += int(tally.sums[0])
        self._sums += tally.sums[1:]
        self.histogram[:, tally.bins] += tally.counts

    def as_dict(self) -> dict[str, float | None]:
        """Return the metrics by name, as ML.EVALUATE shows them; None where one means nothing."""
        self._settle()
        n, rate = self.examples, self.label_rate
        labels, predictions, absolute, squared, log = self._sums.tolist()
        logloss = log / n if n and self.classifier else None
        entropy = -(rate * np.log(rate) + (1 - rate) * np.log1p(-rate)) if 0 < rate < 1 else 0.0
        return {
            "examples": self.examples,
            "auc": self.auc(),
            "logloss": logloss,
            "normalized_entropy": float(logloss / entropy) if logloss is not None and entropy > 0 else None,
            "mae": absolute / n if n else None,
            "rmse": math.sqrt(squared / n) if n else None,
            "pcopc": predictions / labels if labels > 0 else None,
        }

    def auc(self) -> float | None:
        """Return the area under the ROC curve; None unless both labels have occurred."""
        self._settle()
        negatives, positives = self.histogram
        pairs = float(negatives.sum()) * float(positives.sum())
        if not pairs:
            return None
        below = np.cumsum(negatives) - negatives
        return float((positives * (below + 0.5 * negatives)).sum() / pairs)

    def calibration(self, parts: int) -> tuple[tuple[float, float, int], ...]:
        """Return mean prediction, mean label and examples of parts of about equal size, in order of prediction.

        The mean prediction is that of bins' middles. Empty where there are no probabilities.
        """
        self._settle()
        counts = self.histogram.sum(axis=0)
        bins = np.flatnonzero(counts)
        if not len(bins):
            return ()
        middles = 1 / (1 + np.exp(-((bins + 0.5) / (BINS / 2) - 1) * LOGIT_LIMIT))
        part = np.minimum((np.cumsum(counts[bins]) - counts[bins] / 2) / counts.sum() * parts, parts - 1).astype(np.int64)
        weights = (counts[bins] * middles, self.histogram[1, bins], counts[bins])
        predicted, clicked, examples = (np.bincount(part, values, parts) for values in weights)
        return tuple((float(predicted[i] / n), float(clicked[i] / n), int(n)) for i, n in enumerate(examples) if n)

    @property
    def label_rate(self) -> float:
        self._settle()
        return float(self._sums[0]) / max(self.examples, 1)

    def _settle(self) -> None:
        """Count what waits: many small batches at once."""
        if not self._waiting:
            return
        labels = np.concatenate([labels for labels, _ in self._waiting]).astype(np.float64)
        predictions = np.concatenate([predictions for _, predictions in self._waiting]).astype(np.float64)
        self._waiting, self._num_waiting = [], 0
        if np.isnan(predictions).any():
            raise no_number("The model predicts NaN")
        differences, log = labels - predictions, 0.0
        if self.classifier:
            p, positive = np.clip(predictions, PROBABILITY_LIMIT, 1 - PROBABILITY_LIMIT), labels > 0
            log_p, log_q = np.log(p), np.log(1 - p)
            log = -np.where(positive, log_p, log_q).sum()
            place = ((log_p - log_q) / LOGIT_LIMIT + 1) * (BINS / 2)
            bins = np.clip(place, 0, BINS - 1).astype(np.int64) + BINS * positive
            np.add.at(self.histogram.reshape(-1), bins, 1)
        self._sums += (labels.sum(), predictions.sum(), np.abs(differences).sum(), (differences**2).sum(), log)


def gauc(groups: NDArray[np.int64], labels: Floats, predictions: Floats) -> float | None:
    """Return the mean of the groups' exact AUCs, weighted by their examples; None where no group has both labels.

    See gauc_sums.
    """
    won, examples = gauc_sums(groups, labels, predictions)
    return won / examples if examples else None


def gauc_sums(groups: NDArray[np.int64], labels: Floats, predictions: Floats) -> tuple[float, float]:
    """Return the sum of exact AUC x examples over groups, and their examples; groups of one label do not count.

    Source: Zhu et al., Optimized Cost per Click in Taobao Display Advertising, KDD 2017, equation 5.

    Args:
        groups: int64[n], any numbering.
        labels: float32[n]; predictions: float32[n].
    """
    if not len(groups):
        return 0.0, 0.0
    order = np.lexsort((predictions, groups))
    groups, positive, predictions = groups[order], labels[order] > 0, predictions[order]
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    group = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(groups)]))
    tie = np.cumsum(np.r_[True, (groups[1:] != groups[:-1]) | (predictions[1:] != predictions[:-1])]) - 1
    position = np.arange(len(groups)) - starts[group] + 1.0
    rank = (np.bincount(tie, position) / np.bincount(tie))[tie]
    positives = np.bincount(group, positive)
    size = np.bincount(group)
    pairs = positives * (size - positives)
    wins = np.bincount(group, rank * positive) - positives * (positives + 1) / 2
    both = pairs > 0
    return float((wins[both] / pairs[both] * size[both]).sum()), float(size[both].sum())


def weight_range(low: float, high: float) -> dict[str, float]:
    """Return the range of weights as ML.TRAINING_INFO names it."""
    return {"max_weight": high, "min_weight": low, "max_abs_weight": max(abs(low), abs(high))}
