"""Compensation of gradients that were computed on old weights."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from ..options import Part, option
from .base import Context, Operator, Rows, TableSpec


@dataclass(frozen=True)
class DelayCompensationOptions:
    """Options of delay_compensation."""

    lambda_: float = option(0.04, "strength of the correction", minimum=0)


def delay_compensation(options: DelayCompensationOptions, table: TableSpec) -> Operator:
    """Correct a gradient g for what happened to the weights since they were pulled: g <- g + lambda g^2 (w - w_pulled).

    It estimates the gradient at the current weights by a Taylor expansion in which g^2 approximates the curvature. It keeps
    the size of a stale gradient, while staleness_discount reduces it. The pulled weights are sent with the gradients, so a
    push of such a table, or of dense parameters, is twice as large. Without staleness nothing changes.

    Source: Zheng et al., "Asynchronous Stochastic Gradient Descent with Delay Compensation", ICML 2017, equation 10 (with a
    constant lambda, 0.04 in its experiments).
    """

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        return gradients + options.lambda_ * gradients * gradients * (rows["w"] - context.pulled), rows

    return Operator({}, before, name="delay_compensation", dense=True)


DELAY_COMPENSATION = Part("delay_compensation", DelayCompensationOptions, delay_compensation)
