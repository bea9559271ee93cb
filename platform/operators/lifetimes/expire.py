"""Expiry (eviction): which rows end."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ...dependent import when
from ...errors import OptionError, Subject
from ...options import Part, option
from ..base import Context, Operator, Rows, TableSpec
from ..duration import duration_seconds
from .slots import among, numbers_of, utility_of

SUBJECT = Subject("OPERATORS", "expire")


@dataclass(frozen=True)
class ExpireOptions:
    """Options of expire; a row ends where all conditions given hold."""

    after: str | None = option(None, "TIME since the feature was last seen, such as '30 days'")
    utility: float | None = option(None, "rows end whose utility is below this", minimum=0, open_minimum=True, relation="<")
    grace: int = option(
        10, "updates that a row has had before its utility counts", minimum=0, maximum=2**31 - 1, needs=(when("utility"),)
    )
    slots: tuple[str, ...] = option((), "the slots that it applies to; by default all")


def expire(options: ExpireOptions, table: TableSpec) -> Operator:
    """Remove rows that are no longer useful: the feature is absent, and starts anew if it occurs again.

    after: a row ends if the newest TIME seen, also by the versions that this one continues, is later than the row's
    `last_seen` by more than this.

    utility: a row ends if its utility is below the bound, once it has had `grace` updates. With `recent`, it is the recent
    utility. Information cannot be a condition: it depends on the base rate of all examples, so a row that had ended could
    become valid again.

    Conditions in one expire are joined by AND, those of several expire by OR. Rows end at once, for pulls, pushes and
    versions alike. Their memory is freed gradually, some rows with each push.

    Source: time to live, as in Gray and Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for Distributed File Cache
    Consistency", SOSP 1989; utility and information: platform/operators/lifetimes/feature_value.py.
    """
    if options.after is None and options.utility is None:
        raise OptionError(f"{SUBJECT} needs after = '30 days' or utility < x.", subject=SUBJECT)
    numbers = numbers_of(options.slots, table, SUBJECT._replace(option="slots"))
    after = None if options.after is None else duration_seconds(options.after, SUBJECT._replace(option="after"))

    def expires(rows: Rows, context: Context) -> jax.Array:
        held = [among(context.slot, numbers)]
        if after is not None:
            held.append(context.idle_seconds > after)
        if options.utility is not None:
            held.append((utility_of(rows) < options.utility) & (context.updates >= options.grace))
        return functools.reduce(jnp.logical_and, held)

    return Operator({}, name="expire", needs_time=after is not None, expire=expires)


EXPIRE = Part("expire", ExpireOptions, expire)
