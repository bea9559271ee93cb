"""Metrics of a training, pass by pass.

In the first pass every example is predicted before anything has learned from it; in later ones the model has seen each before,
and how well it recalls them says nothing of new ones. So the first pass is what a version is judged by, and a later one is a
curve of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .metrics import Metrics, Tally

Floats = NDArray[np.float32]


class PassTally(NamedTuple):
    """What was counted in one pass, numbered from 0."""

    pass_number: int
    tally: Tally


class PassMetrics:
    """Running metrics of the first pass and of the newest.

    Args:
        classifier: see Metrics.

    Attributes:
        first: of the first pass.
        newest: the number of the pass that was counted last.
        examples: of all passes.
    """

    def __init__(self, classifier: bool) -> None:
        self.first = Metrics(classifier)
        self.newest = 0
        self.examples = 0
        self._later = self.first

    @property
    def latest(self) -> Metrics:
        """Of the newest pass."""
        return self._later

    def add(self, pass_number: int, labels: Floats, predictions: Floats) -> None:
        """Take in float32[n] labels and predictions of a pass."""
        self.examples += len(labels)
        if (metrics := self._of(pass_number)) is not None:
            metrics.add(labels, predictions)

    def take(self, tallies: Iterable[PassTally]) -> None:
        """Take in what another counted.

        Raises:
            TrainingError: one is no tally of this label's.
        """
        for pass_number, tally in tallies:
            metrics = self._of(pass_number)
            (Metrics(self.first.classifier) if metrics is None else metrics).take(tally)
            self.examples += int(tally.sums[0])

    def tallies(self) -> tuple[PassTally, ...]:
        """Return what was counted of the first pass and of the newest."""
        first = PassTally(0, self.first.tally())
        return (first, PassTally(self.newest, self._later.tally())) if self.newest else (first,)

    def go_on(self, first: Tally, examples: int) -> None:
        """Go on from the tally of the first pass, and the number of examples of all passes."""
        self.first = self._later = Metrics.of(self.first.classifier, [first])
        self.newest, self.examples = 0, examples

    def _of(self, pass_number: int) -> Metrics | None:
        """Return the metrics of a pass; None of one that is over, but for the first: only its examples count."""
        if pass_number == 0:
            return self.first
        if pass_number > self.newest:
            self.newest, self._later = pass_number, Metrics(self.first.classifier)
        return self._later if pass_number == self.newest else None
