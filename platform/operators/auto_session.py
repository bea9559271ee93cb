"""Recent click rates of features, as inputs of any algorithm."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import Subject
from ..options import Part, option
from .base import Column, Context, Operator, Rows, TableSpec, Whole, keep_rows
from .duration import SECONDS, amount
from .lifetimes.slots import among, numbers_of

HORIZONS = ("short", "mid", "long")
UNITS = {"example": 1, **SECONDS}
RATE_LIMIT = 1e-6
SERIES_LIMIT = 0.2
COUNTED = ("session_shows", "session_clicks")


@dataclass(frozen=True)
class AutoSessionOptions:
    """Options of auto_session."""

    short: str = option("20 examples", "half-life of the short horizon: examples of the feature, or TIME such as '1 hour'")
    mid: str = option("200 examples", "half-life of the middle horizon")
    long: str = option("2000 examples", "half-life of the long horizon")
    prior: float = option(20.0, "examples that the next longer horizon counts for in a rate", minimum=0.1, maximum=1e9)
    slots: tuple[str, ...] = option((), "the slots whose rates are inputs; by default all")


def auto_session(options: AutoSessionOptions, table: TableSpec) -> Operator:
    """Offer each feature's click rate at three horizons as inputs, whose weights are learned with the model.

    A row keeps decayed shows S and clicks C at each horizon h. With half-lives in examples they fade with each example of the
    feature, S <- S 2^(-1/h) + 1, C <- C 2^(-1/h) + label; with half-lives in TIME by 2^(-age / h), when the row is read, and
    an example adds 1 and its label. c occurrences in one push count as one after the other, with equally spread labels.

    Of each slot, an example gets three inputs `slot:ctr_short`, `slot:ctr_mid`, `slot:ctr_long`: the log odds of the smoothed
    click rate of its feature, less the log odds of all examples, so that 0 says "as usual" (of several values, the mean over
    values whose number is not 0; without any, 0):

        p_long  = (C_long  + prior p0)     / (S_long  + prior),   p0 = mean label of all examples so far
        p_mid   = (C_mid   + prior p_long) / (S_mid   + prior)
        p_short = (C_short + prior p_mid)  / (S_short + prior)
        input   = log(p / (1 - p)) - log(p0 / (1 - p0))

    With `slots`, the inputs of others are always 0.

    The rates are those before the batch that is learned from, and no gradient flows into them. With several passes each one
    counts anew, from what was known before the first, and finds the rates that the first one found. An algorithm with several
    tables keeps them in its first. One that learns all examples at once has them of the examples before, batch by batch, in the
    order of the input.

    Source: decayed counts, Cohen and Strauss, "Maintaining Time-Decaying Stream Aggregates", PODS 2003; click rates as
    features, smoothed: Richardson et al., "Predicting Clicks", WWW 2007; He et al., "Practical Lessons from Predicting Clicks
    on Ads at Facebook", ADKDD 2014, section 5.2.
    """
    examples, seconds = half_lives(options)
    ratio = math.log(2) / examples  # 0 where the horizon is in TIME
    per_example = np.where(ratio > 0, -np.expm1(-ratio), 1).astype(np.float32)
    timed = bool(np.isfinite(seconds).any())
    numbers = numbers_of(options.slots, table, Subject("OPERATORS", "auto_session", "slots"))

    def after(old: Rows, new: Rows, context: Context) -> Rows:
        count = context.count.astype(jnp.float32)[:, None]
        clicked = context.clicks.astype(jnp.float32)[:, None] / jnp.maximum(count, 1)
        faded = faded_share(count * ratio)
        added = jnp.where(ratio > 0, faded * (1 / per_example), count)
        shows = new["session_shows"] * (1 - faded) + added
        each = jnp.where(count > 0, added, 1)  # a late click alone is one of what was shown before
        return {**new, "session_shows": shows, "session_clicks": new["session_clicks"] * (1 - faded) + clicked * each}

    def read(rows: Rows, context: Context) -> Rows:
        factor = jnp.exp2(-context.age_seconds[:, None] / seconds)
        return {**rows, **{name: rows[name] * factor for name in COUNTED}}

    return Operator(
        {name: Column(len(HORIZONS), merge="sum") for name in COUNTED},
        after=after,
        read=read if timed else keep_rows,
        name="auto_session",
        needs_time=timed,
        offers=tuple(f"ctr_{horizon}" for horizon in HORIZONS),
        offer=functools.partial(lifts, options.prior, numbers),
        per_pass=COUNTED,
        counts=True,
        whole=Whole(),
    )


def lifts(prior: float, numbers: tuple[int, ...], rows: Rows, context: Context) -> jax.Array:
    """Return the inputs of each row, float32[n, 3]: log odds of its smoothed rates, less those of all examples; see
    auto_session.

    Args:
        numbers: of the slots that have some; none: all have.
    """
    base = jnp.clip(context.base_rate, RATE_LIMIT, 1 - RATE_LIMIT)
    # The same for all rows, and compared with 0: a compiler would round a bare product together with the sum that it is a term
    # of in some rows and by itself in others, depending on how many rows there are.
    expected, missed = jnp.maximum(prior * base, 0), jnp.maximum(prior * (1 - base), 0)
    usual = jnp.log(base / (1 - base))
    found = []
    for horizon in reversed(range(len(HORIZONS))):
        shows, clicks = rows["session_shows"][:, horizon], rows["session_clicks"][:, horizon]
        clicked = (clicks + expected) / (shows + prior)
        passed = (jnp.maximum(shows - clicks, 0) + missed) / (shows + prior)  # 1 - a rate near 1 loses its digits
        found.append(jnp.log(clicked / passed) - usual)
        expected, missed = prior * clicked, prior * passed
    offered = jnp.stack(found[::-1], 1)
    return jnp.where(among(context.slot, numbers)[:, None], offered, 0) if numbers else offered


def faded_share(x: jax.Array) -> jax.Array:
    """Return 1 - exp(-x) for x >= 0, exact to float32: near 0 by its series, which costs half of what expm1 does."""
    near = x * (1 - x * (1 / 2 - x * (1 / 6 - x * (1 / 24 - x / 120))))
    return jnp.where(x < SERIES_LIMIT, near, 1 - jnp.exp(-x))


def half_lives(options: AutoSessionOptions) -> tuple[np.ndarray, np.ndarray]:
    """Return the half-lives of the horizons in examples, and in seconds, float32[3] each; infinite in the unit they are not in.

    Raises:
        OptionError: no amount of examples or time.
    """
    examples, seconds = np.full((2, len(HORIZONS)), np.inf, np.float32)
    for number, horizon in enumerate(HORIZONS):
        value, unit = amount(getattr(options, horizon), UNITS, Subject("OPERATORS", "auto_session", horizon))
        (examples if unit == "example" else seconds)[number] = value * UNITS[unit]
    return examples, seconds


AUTO_SESSION = Part("auto_session", AutoSessionOptions, auto_session)
