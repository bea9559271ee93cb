"""Averaging of a key's gradient over its occurrences, in a push or in its life."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..dependent import when
from ..options import Part, option
from .base import Context, Operator, Rows, TableSpec

DIVISORS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "count": lambda count: count,
    "sqrt": jnp.sqrt,
    "log": lambda count: 1 + jnp.log(count),
}


@dataclass(frozen=True)
class GradientAverageOptions:
    """Options of gradient_average."""

    mode: str = option("count", "what the gradient is divided by: 1, c, sqrt(c), 1 + log(c)", choices=("none", *DIVISORS))
    by: str = option(
        "push",
        "what c counts: occurrences in the push, or all of the feature so far",
        choices=("push", "count"),
        needs=(when("mode", *DIVISORS),),
    )


def gradient_average(options: GradientAverageOptions, table: TableSpec) -> Operator:
    """Divide a key's gradient by a function of its occurrences c, in the push or in all.

    A push carries the sum of the gradients of a key's occurrences: g <- g / f(c), with f(c) = 1 (none), c (count: the mean),
    sqrt(c), or 1 + log(c); f(1) = 1 always. By `push`, c counts the push; by `count`, it is the row's `count` with this push: a
    rare feature then learns at the full rate, a frequent one ever more slowly.

    The gradient of a dense parameter is a mean over the batch's examples already, which `push` leaves as it is; by `count`, c
    is the number of the parameter's updates.

    Source: the mean is mini-batch gradient descent per key; sqrt(c) keeps the variance of a sum of independent gradients, as
    in Hoffer et al., "Train longer, generalize better", NeurIPS 2017, section 4 (learning rate ~ sqrt(batch size)).
    """
    if options.mode == "none" or (table.dense and options.by == "push"):
        return Operator({}, name="gradient_average", dense=True)
    divisor = DIVISORS[options.mode]

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        so_far = rows["updates" if table.dense else "count"]
        before = 0 if options.by == "push" else jnp.minimum(so_far, ~context.count)  # counts saturate
        count = jnp.maximum(context.count + before, 1).astype(jnp.float32)
        return gradients / divisor(count)[:, None], rows

    return Operator({}, before, name="gradient_average", dense=True)


GRADIENT_AVERAGE = Part("gradient_average", GradientAverageOptions, gradient_average)
