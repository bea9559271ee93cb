"""The difference of a metric between two trials on the same rows, and its interval."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..metrics.metrics import LabelMetrics, Targets
from ..metrics.validations import HIGHER

GROUPS = 20
WIDTH = 2.09
"""Standard errors of half an interval of 95 % by so many groups: Student's t of 19 degrees of freedom."""
LABEL = "label"

Floats = NDArray[np.float32]


class JudgedRows(NamedTuple):
    """The rows that judge a trial: float32[n] labels, float32[k, n] predictions, one line but of classes and what is found, and
    what labels are, see `measured` of algorithms."""

    labels: Floats
    predictions: Floats
    measured: str

    @classmethod
    def of(cls, path: Path, place: int, alone: bool) -> JudgedRows:
        """Return the rows of one of several trials that learned side by side.

        Args:
            place: its label.
            alone: there is no other trial, so that all predictions are its own.
        """
        with np.load(path) as kept:
            labels, predictions, measured = kept["labels"], kept["predictions"], str(kept["measured"])
        own = predictions if alone and len(labels) == 1 else predictions[place : place + 1]
        return cls(labels[place], own, measured)

    def write(self, path: Path) -> None:
        """Write them as those of a trial that learned alone."""
        with path.open("wb") as file:
            np.savez(file, labels=self.labels[None], predictions=self.predictions, measured=self.measured)

    def part(self, start: int, stop: int) -> JudgedRows:
        """Return some of the rows."""
        return self._replace(labels=self.labels[start:stop], predictions=self.predictions[:, start:stop])

    def value(self, metric: str, which: NDArray[np.bool_]) -> float:
        """Return a metric of some rows; NaN where it is not known of them."""
        metrics = LabelMetrics(Targets.of((LABEL,), self.measured, False, False))
        metrics.add(self.labels[None, which], self.predictions[:, which])
        found = metrics.by_label()[LABEL][metric]
        return math.nan if found is None else found


class Gain(NamedTuple):
    """By how much a trial is better than another one, more is better, and half of the interval of 95 %."""

    gain: float
    half: float

    def least(self, level: float) -> float:
        """Return what the gain is at least, by a bound of one side at a level such as 0.95."""
        from scipy.stats import t  # takes 0.3 s

        return self.gain - float(t.ppf(level, GROUPS - 1)) * self.half / WIDTH


def neighbours(rows: int) -> NDArray[np.int64]:
    """Return the groups of rows that may depend on those beside them: runs of rows."""
    return np.arange(rows) * GROUPS // max(rows, 1)


def gain_of(metric: str, one: JudgedRows, other: JudgedRows | None, groups: NDArray[np.int64] | None = None) -> Gain:
    """Return by how much one trial is better than another on the same rows, by a jackknife over groups of them.

    Args:
        other: None: by how much its metric is above 0.
        groups: of each row, from 0 to GROUPS; None: rows in turn.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 11, with a group left out at a time.
    """
    sign, group = (1 if metric in HIGHER else -1), np.arange(len(one.labels)) % GROUPS if groups is None else groups
    every = np.ones(len(one.labels), bool)

    def difference(which: NDArray[np.bool_]) -> float:
        return sign * (one.value(metric, which) - (0.0 if other is None else other.value(metric, which)))

    left = np.array([difference(group != number) for number in range(GROUPS)])
    error = math.sqrt((GROUPS - 1) / GROUPS * float(((left - left.mean()) ** 2).sum()))
    return Gain(difference(every), WIDTH * error)
