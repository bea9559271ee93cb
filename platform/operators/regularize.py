"""Proximal regularisation of weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..dependent import when
from ..errors import OptionError, Subject
from ..options import Part, as_float32, option
from .base import Context, Operator, Rows, TableSpec, Whole

BY_FREQUENCY = Subject("OPERATORS", "regularize", "by_frequency")

Doubles = NDArray[np.float64]
Proximal = Callable[[jax.Array, jax.Array], jax.Array]


@dataclass(frozen=True)
class RegularizeOptions:
    """Options of regularize."""

    penalty: str = option("l2", "what is penalised", choices=("l1", "l2", "elastic", "group"))
    strength: float = option(1e-4, "strength s, per update of a row", minimum=0)
    l1_ratio: float = option(0.5, "share of l1", minimum=0, maximum=1, needs=(when("penalty", "elastic"),))
    coupled: bool = option(
        False,
        "s w is added to the gradient, a sum over an update's examples, in place of a step after it: the optimizer scales both",
        needs=(when("penalty", "l2"),),
    )
    by_frequency: tuple[Any, ...] = option((), "((count, s), ...): strength s of rows seen at most count times, ascending")


def regularize(options: RegularizeOptions, table: TableSpec) -> Operator:
    """Pull weights towards 0: l1, l2, elastic net or group lasso, as a proximal step after each update of a row.

        l1       w <- sign(w) max(|w| - s, 0)
        l2       w <- w / (1 + s)
        elastic  l1 with l1_ratio s, then l2 with (1 - l1_ratio) s
        group    w <- w max(1 - s / |w|_2, 0), over the row's vector: all of it becomes 0, or nothing

    by_frequency = ((10, 1e-3), (1000, 1e-5)): s is 1e-3 for rows that occurred at most 10 times, this push included, 1e-5 up
    to 1000, and `strength` beyond.

    With coupled = true the gradient of s / 2 w^2 is added to that of the update, as other libraries do; where theirs is of the
    mean loss, s is their strength times `batch_size`. Rows that an update does not touch stay as they are.

    Of dense parameters each line is a row, whose strength is `strength`. `owlqn`, which has no updates, adds the penalties
    whose steps these are to what it minimises: s |w|, s / 2 w^2; `group` is l1 there, as its rows have one weight.

    Source: Parikh and Boyd, "Proximal Algorithms", Foundations and Trends in Optimization 2014, section 6.5; group lasso: Yuan
    and Lin, "Model selection and estimation in regression with grouped variables", JRSS B 2006.
    """
    ranges = frequency_ranges(options.by_frequency)
    ratio = options.l1_ratio
    steps: dict[str, Proximal] = {
        "l1": soft_threshold,
        "l2": shrink,
        "elastic": lambda w, s: shrink(soft_threshold(w, ratio * s), (1 - ratio) * s),
        "group": group_threshold,
    }
    step = steps[options.penalty]

    def strengths(rows: Rows, context: Context) -> jax.Array:
        seen = rows["count"] + jnp.minimum(context.count, ~rows["count"])  # counts saturate
        strength = jnp.full(seen.shape, options.strength, jnp.float32)
        for bound, value in reversed(ranges):
            strength = jnp.where(seen <= jnp.uint32(bound), value, strength)
        return strength[:, None]

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        return gradients + strengths(rows, context) * rows["w"], rows

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        return {**new, "w": step(new["w"], strengths(new, context))}

    def penalty(counts: Doubles) -> tuple[Doubles, Doubles]:
        strength = np.full(len(counts), options.strength)
        for bound, value in reversed(ranges):
            strength[counts <= bound] = value
        share = {"l2": 0.0, "elastic": ratio}.get(options.penalty, 1.0)
        return share * strength, (1 - share) * strength

    acts = {"before": before} if options.coupled else {"after": after}
    return Operator({}, **acts, name="regularize", dense=True, whole=Whole(penalty))


def soft_threshold(w: jax.Array, s: jax.Array) -> jax.Array:
    return jnp.sign(w) * jnp.maximum(jnp.abs(w) - s, 0)


def shrink(w: jax.Array, s: jax.Array) -> jax.Array:
    return w / (1 + s)


def group_threshold(w: jax.Array, s: jax.Array) -> jax.Array:
    norm = jnp.sqrt(jnp.sum(w * w, 1, keepdims=True))
    return w * jnp.maximum(1 - s / jnp.where(norm > 0, norm, 1), 0)


def frequency_ranges(given: tuple[Any, ...]) -> tuple[tuple[int, float], ...]:
    """Check by_frequency; a single pair may stand without the outer parentheses.

    Raises:
        OptionError: not pairs of a count and a strength, or counts that do not ascend.
    """
    pairs = (given,) if len(given) == 2 and all(isinstance(v, (int, float)) for v in given) else given
    try:
        ranges = tuple((int(bound), float(strength)) for bound, strength in pairs)
    except (TypeError, ValueError, OverflowError) as error:
        message = f"{BY_FREQUENCY} expects pairs (count, strength), got {given!r}."
        raise OptionError(message, subject=BY_FREQUENCY) from error
    bounds = [bound for bound, _ in ranges]
    right = all(1 <= bound < 2**32 and 0 <= as_float32(strength) < math.inf for bound, strength in ranges)
    if bounds != sorted(set(bounds)) or not right:
        raise OptionError(
            f"{BY_FREQUENCY} expects counts from 1 to 4294967295, ascending, and strengths of at least 0, got {given!r}.",
            subject=BY_FREQUENCY,
        )
    return ranges


REGULARIZE = Part("regularize", RegularizeOptions, regularize)
