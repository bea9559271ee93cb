"""Limits on gradients, updates and weights; never a NaN or infinity in a row."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..options import Part, option
from .base import Column, Context, Operator, Rows, TableSpec, Whole

ROUNDING = 1e-6  # a weight that rests on its limit is derived again within a few units of float32's last place
FLAG = Column(1, transient=True)


@dataclass(frozen=True)
class SafetyOptions:
    """Options of safety."""

    max_gradient: float | None = option(None, "largest |gradient|, per element", minimum=0, open_minimum=True)
    max_update: float | None = option(None, "largest |change of a weight| in one push", minimum=0, open_minimum=True)
    max_weight: float | None = option(None, "largest |weight|", minimum=0, open_minimum=True)
    on_violation: str = option("clip", "what happens to a row beyond a limit", choices=("clip", "skip", "fail"))


def safety(options: SafetyOptions, table: TableSpec) -> Operator:
    """Keep gradients, updates and weights within limits, and NaN and infinity out of the rows.

    `clip` sets an element beyond a limit to the limit. `skip` leaves the whole row as it was before the push. `fail` ends
    the training with an error that names slot and key. A row whose gradient or new values contain NaN or infinity is left
    as it was, with `clip` as well, whether there are limits or not. Each push counts `violations`, rows beyond a limit or
    not finite, and `refused`, those of them that were left as they were.

    Its place in the chain decides which gradient is limited (before or after averaging). The first operator of a chain acts
    last on weights: `decay` and `regularize` change a refused row, too, if they come before `safety`.

    Of dense parameters each line is a row: of a kernel the weights of one input, of a bias all. `owlqn`, which has no updates,
    seeks its weights within max_weight, and takes nothing else.

    Source: clipping by value, Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013,
    section 3.2, per element.
    """
    flags = ("violations", "refused", *(("failed",) if options.on_violation == "fail" else ()))

    def flagged(rows: Rows, beyond: jax.Array, broken: jax.Array) -> Rows:
        violating = jnp.any(beyond | broken, 1, keepdims=True)
        refused = jnp.any(broken, 1, keepdims=True) if options.on_violation == "clip" else violating
        found = zip(flags, (violating, refused, violating), strict=False)
        return {**rows, **{name: jnp.maximum(rows[name], flag.astype(jnp.float32)) for name, flag in found}}

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        limited = clip(gradients, options.max_gradient)
        rows = flagged(rows, differs(gradients, limited), ~jnp.isfinite(gradients))
        return jnp.where(rows["refused"] > 0, 0, limited), rows

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        values = [name for name in old if name not in flags and new[name] is not old[name]]
        w = clip(clip(new["w"], options.max_update, old["w"]), options.max_weight)
        none = jnp.zeros((len(w), 1), jnp.bool_)  # an optimizer may change nothing
        broken = functools.reduce(jnp.logical_or, (not_finite(new[name], table.dim) for name in values), none)
        new = flagged({**new, "w": w}, differs(new["w"], w), broken)
        return {**new, **{name: jnp.where(new["refused"] > 0, old[name], new[name]) for name in values}}

    return Operator(dict.fromkeys(flags, FLAG), before, after, name="safety", dense=True, whole=whole(options))


def whole(options: SafetyOptions) -> Whole | str:
    """Return what it means where there are no updates: the limit of weights."""
    if options.max_gradient is not None or options.max_update is not None or options.on_violation != "clip":
        return "limits gradients and updates, which exist only batch by batch; only max_weight has an effect"
    if options.max_weight is None:
        return "keeps NaN out of updates, which exist only batch by batch; only max_weight has an effect"
    return Whole(most=options.max_weight)


def clip(values: jax.Array, limit: float | None, center: jax.Array | float = 0.0) -> jax.Array:
    return values if limit is None else jnp.clip(values, center - limit, center + limit)


def differs(given: jax.Array, limited: jax.Array) -> jax.Array:
    """Tell which elements a limit has changed, bool[n, dim]."""
    return jnp.abs(given - limited) > ROUNDING * jnp.abs(given)


def not_finite(values: jax.Array, dim: int) -> jax.Array:
    """Tell which elements are NaN or infinite: bool[n, dim], or bool[n, 1] for a column of another width than w."""
    broken = ~jnp.isfinite(values)
    return broken if values.shape[1] == dim else jnp.any(broken, 1, keepdims=True)


SAFETY = Part("safety", SafetyOptions, safety)
