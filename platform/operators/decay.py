"""Decay of weights and of the optimizer's memory, per update or per unit of time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp

from ..dependent import when
from ..errors import OptionError, Subject
from ..options import Part, option
from .base import Context, Operator, Rows, TableSpec, keep_new, keep_rows
from .duration import duration_seconds

DECAYED = ("w", "z", "n")
HALVES, HALF_LIFE = (Subject("OPERATORS", "decay", option) for option in ("halves", "half_life"))


@dataclass(frozen=True)
class DecayOptions:
    """Options of decay."""

    w: float = option(1.0, "factor on the weights after each update", minimum=0, maximum=1, open_minimum=True)
    z: float = option(1.0, "factor on ftrl's z after each update", minimum=0, maximum=1, open_minimum=True)
    n: float = option(1.0, "factor on ftrl's n after each update", minimum=0, maximum=1, open_minimum=True)
    half_life: str | None = option(None, "TIME after which what `halves` names is half of what it was, such as '7 days'")
    halves: tuple[str, ...] = option(("w",), "what half_life halves: w, z, n", needs=(when("half_life"),))


def decay(options: DecayOptions, table: TableSpec) -> Operator:
    """Forget old data: multiply w, z, n by a factor after each update, or halve them per half_life of TIME.

    w is the weight, whatever the optimizer keeps. With ftrl, decaying w moves z so that the derived weight is the decayed
    one, at the (decayed) n. If w is decayed, z's factor has an effect only where w is 0. Decaying z forgets gradients:
    weights shrink, and L1 sets some to zero. Decaying n raises learning rates, and so weights at the same z.

    half_life: multiply by 2^(-age / half_life), where age is the TIME since the row's last update. It is applied when a row
    is read, by a pull or a push, and stored by the push, so the result does not depend on how often a row is read.

    The w of dense parameters decays, too, by both. They have neither z nor n.

    Source: exponential forgetting as in Gama et al., "A Survey on Concept Drift Adaptation", ACM Computing Surveys 2014,
    section 3.1.
    """
    factors = {name: factor for name, factor in zip(DECAYED, (options.w, options.z, options.n), strict=True) if factor != 1}
    unknown = [name for name in options.halves if name not in DECAYED]
    if unknown:
        raise OptionError(f"{HALVES} takes names among {', '.join(DECAYED)}, got {unknown[0]!r}.", subject=HALVES)
    halves = () if options.half_life is None else options.halves
    half_life_seconds = duration_seconds(options.half_life, HALF_LIFE) if options.half_life is not None else math.inf

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        return {**new, **{name: new[name] * factor for name, factor in factors.items()}}

    def read(rows: Rows, context: Context) -> Rows:
        factor = jnp.exp2(-context.age_seconds / half_life_seconds)[:, None]
        return {**rows, **{name: rows[name] * factor for name in halves}}

    return Operator(
        {},
        after=after if factors else keep_new,
        read=read if halves else keep_rows,
        name="decay",
        needs=tuple(name for name in DECAYED[1:] if name in factors or name in halves),
        needs_time=bool(halves),
        dense={*factors, *halves} == {"w"},
    )


DECAY = Part("decay", DecayOptions, decay)
