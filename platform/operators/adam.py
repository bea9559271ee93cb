"""The optimizer Adam."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..dependent import when
from ..options import Part, option
from .base import Column, Context, Operator, Rows, TableSpec
from .from_optax import per_row

SPANS = 12
"""Updates without a row are made up for in spans of 1, 2, 4, ... updates: 4,095 of them at most."""
IDLE = "adam_idle"
"""Examples learned when the row was last moved, examples of that update, and its rate."""


@dataclass(frozen=True)
class AdamOptions:
    """Options of adam."""

    learning_rate: float = option(0.001, "learning rate", minimum=0, open_minimum=True)
    b1: float = option(0.9, "share of the mean gradient kept per update", minimum=0, maximum=1, open_maximum=True)
    b2: float = option(0.999, "share of the mean square kept per update", minimum=0, maximum=1, open_maximum=True)
    eps: float = option(1e-8, "added to the divisor", minimum=0, open_minimum=True)
    whole: bool = option(False, "a row moves in every update of its table, as if all rows were one array")
    l2: float = option(
        0.0,
        "l2 w is added to the gradient, a sum over an update's examples, in every update",
        minimum=0,
        needs=(when("whole"),),
    )


def adam(options: AdamOptions, table: TableSpec) -> Operator:
    """Adam: steps scaled by running means of a row's gradients and of their squares.

        m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
        w <- w - learning_rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)

    t is the row's own number of updates, so a rare key's first steps are corrected like a frequent one's.

    With whole = true t is the table's number of updates. A row goes on moving by its m in updates that do not have it, and
    l2 pulls it to 0 in each of them: what other libraries do, whose table of vectors is one array. Here a pull makes up for
    these updates at once, in spans within which v and the penalty's gradient change little.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
    """
    if options.whole:
        return of_whole_tables(options, table)
    import optax  # costs 0.2 s, which chains that end with ftrl need not pay

    return per_row(optax.adam(options.learning_rate, options.b1, options.b2, options.eps), table, "adam")


def of_whole_tables(options: AdamOptions, table: TableSpec) -> Operator:
    b1, b2 = options.b1, options.b2

    def corrected(v: jax.Array, t: jax.Array) -> jax.Array:
        return jnp.sqrt(v / (1 - b2**t)) + options.eps

    def read(rows: Rows, context: Context) -> Rows:
        w, m, v = (rows[name] for name in ("w", "adam_mu", "adam_nu"))
        last, size, rate = (rows[IDLE][:, [place]] for place in range(3))
        seen = context.examples - context.pushed
        left = jnp.where(size > 0, jnp.maximum(seen - last, 0) / jnp.maximum(size, 1), 0)
        t = jnp.maximum(seen / jnp.maximum(size, 1), 1)
        for span in (2.0**power for power in range(SPANS)):
            steps = jnp.clip(left, 0, span)
            left = left - steps
            gradient = options.l2 * w
            carried = b1 * (1 - b1**steps) / (1 - b1)
            pull = gradient * (steps - carried)
            end = b2**steps * v + (1 - b2**steps) * gradient**2
            moved = w - options.learning_rate * rate * (m * carried + pull) / (1 - b1**t) / corrected((v + end) / 2, t)
            beyond = (moved * w < 0) & (jnp.abs(pull) > jnp.abs(m * carried))  # a penalty does not pull past 0
            w, v = jnp.where(beyond, 0, moved), end
            m = b1**steps * m + (1 - b1**steps) * gradient
        idle = jnp.concatenate([jnp.where(size > 0, jnp.maximum(seen, last), last), size, rate], 1)
        return {**rows, "w": w, "adam_mu": m, "adam_nu": v, IDLE: idle}

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        gradient = gradients + options.l2 * rows["w"]
        m = b1 * rows["adam_mu"] + (1 - b1) * gradient
        v = b2 * rows["adam_nu"] + (1 - b2) * gradient**2
        t = jnp.maximum(context.examples / jnp.maximum(context.pushed, 1), 1)
        w = rows["w"] - options.learning_rate * m / (1 - b1**t) / corrected(v, t)
        told = jnp.stack([context.examples, context.pushed, context.rate])
        return gradients, {**rows, "w": w, "adam_mu": m, "adam_nu": v, IDLE: jnp.broadcast_to(told, rows[IDLE].shape)}

    columns = {"w": Column(table.dim, table.init), "adam_mu": Column(table.dim), "adam_nu": Column(table.dim), IDLE: Column(3)}
    return Operator(columns, before, read=read, optimizer=True, name="adam")


ADAM = Part("adam", AdamOptions, adam)
