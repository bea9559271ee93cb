"""Optimizers at a rate: a factor of their steps that changes while they learn."""

from __future__ import annotations

from typing import NamedTuple

import jax

from .base import Context, Operator, Rows


class StepRates(NamedTuple):
    """The factors of optimizers' steps, a function of what a push brings, so that a replay finds the same.

    Attributes:
        of_passes: by the number of the pass; the last one is that of later passes, too; empty: 1.
        cooldown: the share of the updates, the last ones, over which they fall to 0, by a straight line.
        passes: how often the input is read.
        before: how many batches a pass has before each split, and in all.
    """

    of_passes: tuple[float, ...] = ()
    cooldown: float = 0.0
    passes: int = 1
    before: tuple[int, ...] = (0, 1)

    def at(self, pass_number: int, split: int = 0, batch: int = 0) -> float:
        """Return the factor of an update."""
        factor = self.of_passes[min(pass_number, len(self.of_passes) - 1)] if self.of_passes else 1.0
        if not self.cooldown:
            return factor
        *starts, total = self.before
        done = pass_number * total + starts[min(split, len(starts) - 1)] + batch
        left = max(1 - done / (self.passes * total), 0.0)  # fewer where a sample told how many there are
        return factor * min(1.0, left / self.cooldown)


def paced(optimizer: Operator) -> Operator:
    """Return an optimizer whose steps are multiplied by the context's rate; at 1 they are the optimizer's, but for rounding.

    Of one that is linear in its learning rate, as sgd, adagrad and adam are, that is the learning rate multiplied. Of one that
    derives w from other columns (ftrl) these follow, as they do where another operator changes w: it goes on from there.
    """

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        gradients, moved = optimizer.before(gradients, rows, context)
        w = moved["w"] - (1 - context.rate) * (moved["w"] - rows["w"])
        return gradients, optimizer.settle(moved, {**moved, "w": w}, context)

    return optimizer._replace(before=before)
