"""Optimizers at a rate: a factor of their steps that changes while they learn."""

from __future__ import annotations

import jax

from .base import Context, Operator, Rows


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
