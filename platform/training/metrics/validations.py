"""Validation metrics pass by pass, the best pass, and early stopping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .labels import Values
from .metrics import LabelMetrics, Tally, Targets


class Validated(NamedTuple):
    """The validation result of a pass.

    Attributes:
        pass_number: from 0.
        examples: learned from so far, in all passes.
        tallies: of the validation rows, for each label.
    """

    pass_number: int
    examples: int
    tallies: tuple[Tally, ...]


class Validations:
    """The passes of a training that are validated.

    Args:
        targets: what predictions are measured against, without groups.
        patience: passes without gain after which a training stops, and the best one is kept; None: it goes on to the end.

    Attributes:
        passes: in order.
    """

    def __init__(self, targets: Targets, patience: int | None) -> None:
        self.passes: list[Validated] = []
        self.patience = patience
        self._targets = targets

    def restore(self, passes: Sequence[Validated], written: int | None) -> None:
        """Continue from a checkpoint's passes, and the pass whose rows were written by then.

        A best pass whose rows were not written is scored again: it was the last one.
        """
        self.passes = list(passes)
        if self.patience is not None and self.kept is not None and self.kept.pass_number != written:
            self.passes.pop()

    @property
    def kept(self) -> Validated | None:
        """The pass whose rows become the version: the best one with patience, else the last; None before the first."""
        if not self.passes:
            return None
        return self.passes[-1] if self.patience is None else min(self.passes, key=self.loss)

    @property
    def gained(self) -> bool:
        """Whether the last pass is the best."""
        return self.kept is self.passes[-1]

    @property
    def over(self) -> bool:
        """Whether to stop early."""
        kept = self.kept
        return self.patience is not None and kept is not None and len(self.passes) - 1 - kept.pass_number >= self.patience

    def by_label(self, validated: Validated) -> dict[str, Values]:
        """Return the metrics of each label after a pass."""
        return LabelMetrics.of(self._targets, [validated.tallies]).by_label()

    def loss(self, validated: Validated) -> float:
        """Return the first label's loss after a pass: log loss of classes, root of the mean squared difference of numbers."""
        values = self.by_label(validated)[self._targets.labels[0]]
        loss = values["logloss" if "classes" in self._targets.traits else "rmse"]
        return math.inf if loss is None else loss
