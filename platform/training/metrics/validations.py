"""Validation metrics pass by pass, the best pass, early stopping, and rounds."""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from ....warehouse.entries import RoundEntry
from .labels import Values
from .metrics import LabelMetrics, Tally, Targets

HIGHER = ("auc", "gauc", "pr_auc", "accuracy", "precision", "recall", "f1", "r2")
LOWER = ("logloss", "normalized_entropy", "mae", "rmse", "mape", "pinball", "poisson_deviance")
"""The metrics that can judge, by which of two values is better."""
LEAST_GAIN = 1.03
"""How many times the recall of the best round before a later round must reach."""


class GainOnLog(NamedTuple):
    """What a model would earn a request beyond a log of decisions, with the bounds of its interval; None: too few rows tell.

    Attributes:
        effective_rows: how many rows of equal weight tell as much.
    """

    gain: float | None
    gain_low: float | None
    gain_high: float | None
    effective_rows: float


class Validated(NamedTuple):
    """The validation result of a pass.

    Attributes:
        pass_number: from 0.
        examples: learned from so far, in all passes.
        tallies: of the validation rows, for each label; none where they are forgotten.
        gain: on them, where the release gate names it.
    """

    pass_number: int
    examples: int
    tallies: tuple[Tally, ...]
    gain: GainOnLog | None = None


class Validations:
    """The passes of a training that are validated.

    Args:
        targets: what predictions are measured against, without groups.
        patience: passes without gain after which a round stops; None: it goes on to the end.
        rounds: there may be several.

    Attributes:
        passes: in order.
        by: the metric that judges; None: the usual one.
        drops: a pass without gain ends a round, and the next one begins with the best pass, at lower rates.
        keeps: the best one is kept, else the last.
        starts: the first pass of each round that has begun.
    """

    def __init__(self, targets: Targets, patience: int | None, rounds: bool = False) -> None:
        self.passes: list[Validated] = []
        self.patience = patience
        self.by: str | None = None
        self.drops = False
        self.keeps = rounds or patience is not None
        self.starts = [0]
        self._targets = targets
        self._values: dict[int, tuple[Validated, float]] = {}

    def restore(self, passes: Sequence[Validated], written: int | None) -> None:
        """Continue from a checkpoint's passes, and the pass whose rows were written by then.

        A best pass whose rows were not written is scored again: it was the last one.
        """
        self.passes = list(passes)
        if self.keeps and self.kept is not None and self.kept.pass_number != written:
            self.passes.pop()

    @property
    def kept(self) -> Validated | None:
        """The pass whose rows become the version: the best one where that is kept, else the last; None before the first. One of
        a later round must be better by LEAST_GAIN.
        """
        best = None
        for one in self.passes:
            if best is None or not self.keeps or self._gains(one, best):
                best = one
        return best

    @property
    def gained(self) -> bool:
        """Whether the last pass is the best."""
        return self.kept is self.passes[-1]

    @property
    def ended(self) -> bool:
        """Whether so many passes in a row have gained nothing that no further round follows, where passes drop rates."""
        kept = self.kept
        return self.patience is not None and kept is not None and len(self.passes) - 1 - kept.pass_number >= self.patience

    @property
    def over(self) -> bool:
        """Whether to stop the round early."""
        kept = self.kept
        if self.patience is None or kept is None:
            return False
        if self.drops:
            return self.ended or (len(self.passes) > self.starts[-1] and not self.gained)
        since = max(kept.pass_number + 1, self.starts[-1])
        return sum(one.pass_number >= since for one in self.passes) >= self.patience

    def forget(self) -> None:
        """Let go of what was measured after passes that can no longer be kept, where there are thousands of them."""
        kept = self.kept
        self.passes = [one if one is kept or not one.tallies else one._replace(tallies=()) for one in self.passes]

    def round_of(self, validated: Validated) -> int:
        """Return the round that a pass belongs to, from 0."""
        return bisect.bisect_right(self.starts, validated.pass_number) - 1

    def way(self, validated: Validated) -> list[Validated]:
        """Return the passes that a pass is made of: of its round those up to it, and before them what the round began with."""
        first = self.starts[self.round_of(validated)]
        earlier = Validations(self._targets, self.patience)
        earlier.by, earlier.passes = self.by, self.passes[:first]
        before = earlier.kept
        return [*([] if before is None else self.way(before)), *self.passes[first : validated.pass_number + 1]]

    def by_label(self, validated: Validated) -> dict[str, Values]:
        """Return the metrics of each label after a pass."""
        return LabelMetrics.of(self._targets, [validated.tallies]).by_label()

    def rounds(self) -> tuple[RoundEntry, ...]:
        """Return the rounds so far: of each its best pass."""
        found = []
        for number in range(len(self.starts)):
            passes = [one for one in self.passes if self.round_of(one) == number]
            if passes:
                best = functools.reduce(lambda best, one: one if self._gains(one, best) else best, passes)
                found.append(RoundEntry(len(passes), best.pass_number, self.value(best)))
        return tuple(found)

    @property
    def judge(self) -> str:
        """The metric of the first label that passes are judged by: where none is named, recall, log loss of classes, two or
        several, and of numbers what is minimised, or the root of the mean squared difference."""
        if self.by is not None:
            return self.by
        traits = self._targets.traits
        if traits & {"quantile", "counts"}:
            return "pinball" if "quantile" in traits else "poisson_deviance"
        return "recall" if "found" in traits else "logloss" if traits & {"classes", "multiclass"} else "rmse"

    def value(self, validated: Validated) -> float:
        """Return that metric after a pass; the worst where it is not defined, or what was measured is forgotten."""
        if (known := self._values.get(validated.pass_number)) is not None and known[0] is validated:
            return known[1]
        found = self.by_label(validated)[self._targets.labels[0]][self.judge] if validated.tallies else None
        value = (-math.inf if self.judge in HIGHER else math.inf) if found is None else found
        self._values[validated.pass_number] = validated, value
        return value

    def _gains(self, one: Validated, best: Validated) -> bool:
        """Return whether a pass is better than the best one before."""
        if self.judge not in HIGHER:
            return self.value(one) < self.value(best)
        if self.judge != "recall":
            return self.value(one) > self.value(best)
        return self.value(one) > self.value(best) * (1 if self.round_of(one) == self.round_of(best) else LEAST_GAIN)
