"""Admission: which features get rows."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ...dependent import when
from ...errors import OptionError, Subject
from ...options import Part, option
from ..base import Context, Counting, Operator, Rows, TableSpec, uniform
from ..duration import duration_seconds
from .slots import among, information_of, numbers_of, utility_of

SUBJECT = Subject("OPERATORS", "admit")
WITHIN = SUBJECT._replace(option="within")

MOST_COUNTED = 1023


@dataclass(frozen=True)
class AdmitOptions:
    """Options of admit; a feature has to satisfy all that are given."""

    min_count: int | None = option(None, "occurrences before a feature gets weights", minimum=1, maximum=MOST_COUNTED)
    within: str | None = option(
        None,
        "TIME after which an occurrence may be forgotten, such as '7 days'; after twice that time it is",
        needs=(when("min_count"),),
    )
    probability: float | None = option(
        None, "probability that an occurrence admits the feature", minimum=0, maximum=1, open_minimum=True
    )
    utility: float | None = option(None, "least utility of a feature, exclusive", minimum=0, relation=">")
    information: float | None = option(None, "least information of a feature, exclusive", minimum=0, relation=">")
    slots: tuple[str, ...] = option((), "the slots that it applies to; by default all")


def admit(options: AdmitOptions, table: TableSpec) -> Operator:
    """Give a feature a row only once it meets a condition, such as enough occurrences; until then it is absent.

    min_count: the feature gets a row at its n-th occurrence. Before, it costs about eleven bytes. Occurrences are counted
    for ever, or `within` a time, which bounds the memory of a stream.

    probability: an occurrence admits the feature with probability p, and c occurrences in a push with 1 - (1 - p)^c, drawn
    from (seed, key, pass, split, batch). Before, the feature costs nothing.

    utility, information: those of the feature's candidate row, which is updated and expires like other rows but is treated
    as absent, and becomes the feature's row. Before, it costs as much as a row of the first table. In a later table's own
    operators, those of the feature's row in the first table, after the push.

    Source: inclusion by count and by probability, McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013,
    section 3.1, with exact counts instead of Bloom filters.
    """
    bounds = (options.min_count, options.probability, options.utility, options.information)
    if all(bound is None for bound in bounds):
        raise OptionError(f"{SUBJECT} needs min_count = n, probability = p, utility > x or information > x.", subject=SUBJECT)
    within = math.inf if options.within is None else duration_seconds(options.within, WITHIN)
    numbers = numbers_of(options.slots, table, SUBJECT._replace(option="slots"))

    def admits(rows: Rows, context: Context) -> jax.Array:
        met: list[jax.Array] = []
        if options.min_count is not None:
            met.append(rows["count"] >= options.min_count)
        if options.probability is not None:
            met.append(uniform(context) < -jnp.expm1(context.count * jnp.log1p(jnp.float32(-options.probability))))
        if options.utility is not None:
            met.append(utility_of(rows) > options.utility)
        if options.information is not None:
            met.append(information_of(rows, context) > options.information)
        return functools.reduce(jnp.logical_and, met) | ~among(context.slot, numbers)

    counting = Counting(options.min_count, within) if options.min_count is not None else None
    earned = options.utility is not None or options.information is not None
    trial = (frozenset(numbers),) if earned else ()
    return Operator({}, name="admit", needs_time=options.within is not None, admit=admits, counting=counting, trial=trial)


ADMIT = Part("admit", AdmitOptions, admit)
