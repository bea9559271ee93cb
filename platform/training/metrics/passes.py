"""Metrics of a training, pass by pass.

In the first pass every example is predicted before anything has learned from it; in later ones the model has seen each before,
and how well it recalls them says nothing of new ones. So a version is judged by the first pass, and a later pass has a curve of
its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .metrics import LabelMetrics, Tally, Targets

Floats = NDArray[np.float32]


def told_of(pass_number: int, metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics of a pass under names that say what they are of: after the first one, of rows that were learned before.

    Args:
        pass_number: from 0.
    """
    if not pass_number:
        return dict(metrics)
    return {"pass": pass_number + 1, **{f"{name} of rows learned before": value for name, value in metrics.items()}}


class PassTally(NamedTuple):
    """The tallies of each label in one pass, numbered from 0."""

    pass_number: int
    tallies: tuple[Tally, ...]


class PassMetrics:
    """Running metrics of the first pass and of the newest.

    Args:
        targets: what predictions are measured against, without groups.
        keeps_all: passes between them are kept as well, so that `tallies` has everything.

    Attributes:
        newest: the number of the pass that was counted last.
        examples: of all passes.
    """

    def __init__(self, targets: Targets, keeps_all: bool) -> None:
        self.newest = 0
        self.examples = 0
        self._keeps_all = keeps_all
        self._targets = targets
        self._passes = {0: LabelMetrics(targets)}

    @property
    def first(self) -> LabelMetrics:
        """The metrics of the first pass."""
        return self._passes[0]

    @property
    def latest(self) -> LabelMetrics:
        """The metrics of the newest pass."""
        return self._passes[self.newest]

    def add(self, pass_number: int, labels: Floats, predictions: Floats) -> None:
        """Take in float32[num_labels, n] labels and predictions of a pass."""
        self.examples += labels.shape[1]
        self._of(pass_number).add(labels, predictions)

    def take(self, tallies: Iterable[PassTally]) -> None:
        """Merge another's tallies.

        Raises:
            TrainingError: they are not tallies of these labels.
        """
        for pass_number, found in tallies:
            self._of(pass_number).take(found)
            self.examples += found[0].examples

    def tallies(self) -> tuple[PassTally, ...]:
        """Return the tallies of each pass that is kept."""
        return tuple(PassTally(number, metrics.tallies()) for number, metrics in self._passes.items())

    @property
    def later(self) -> PassTally | None:
        """The tallies of the newest pass; None where that is the first."""
        return PassTally(self.newest, self.latest.tallies()) if self.newest else None

    def go_on(self, first: Sequence[Tally], examples: int, later: PassTally | None) -> None:
        """Go on from the tallies of the first pass and of the newest, and the number of examples of all passes."""
        self._passes = {0: LabelMetrics.of(self._targets, [first])}
        self.newest, self.examples = 0, examples
        if later is not None:
            self._of(later.pass_number).take(later.tallies)

    def _of(self, pass_number: int) -> LabelMetrics:
        """Return the metrics of a pass; reports that come late for a finished pass count only as examples."""
        if pass_number > self.newest:
            self.newest = pass_number
            if not self._keeps_all:
                self._passes = {0: self.first}
        elif pass_number not in self._passes and not self._keeps_all:
            return LabelMetrics(self._targets)
        if pass_number not in self._passes:
            self._passes[pass_number] = LabelMetrics(self._targets)
        return self._passes[pass_number]
