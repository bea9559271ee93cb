"""What admission and expiry share: the worth of rows, and the slots that an operator applies to."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from ...errors import OptionError, Subject, suggestion
from ...reserved import INTERCEPT_NUMBER
from ..base import Context, Rows, TableSpec
from .feature_value import RECENT_CLICKS, RECENT_SHOWS, information, utility


def utility_of(rows: Rows) -> jax.Array:
    """Return the utility of rows, float32[n]."""
    size: jax.Array = jnp.linalg.norm(rows["w"], axis=1)
    return utility(counted(rows, RECENT_SHOWS, "shows"), size, jnp.log)


def information_of(rows: Rows, context: Context) -> jax.Array:
    """Return the information of rows, float32[n]; 0 while the base rate is 0 or 1."""
    base = context.base_rate
    known = (base > 0) & (base < 1)
    shows, clicks = counted(rows, RECENT_SHOWS, "shows"), counted(rows, RECENT_CLICKS, "clicks")
    clicks = jnp.minimum(clicks, shows)  # a click may come late, and its row have begun since
    return jnp.where(known, information(shows, clicks, jnp.where(known, base, 0.5), jnp.log), 0)


def counted(rows: Rows, recent: str, ever: str) -> jax.Array:
    return rows[recent][:, 0] if recent in rows else rows[ever].astype(jnp.float32)


def numbers_of(slots: tuple[str, ...], table: TableSpec, option: Subject) -> tuple[int, ...]:
    """Return the numbers of the slots that an option of an operator names.

    Raises:
        OptionError: the training has no such slot with rows of its own.
    """
    known = {name.lower(): number for name, number in table.slots}
    for slot in slots:
        if known and slot.lower() not in known:
            valid = [name for name, _ in table.slots]
            raise OptionError(f"{option} names {slot!r}.{suggestion(slot, valid)}", subject=option)
    return tuple(known[slot.lower()] for slot in slots if known)


def among(slot: jax.Array, numbers: tuple[int, ...]) -> jax.Array:
    """Return which rows are of one of these slots, bool[n]; all but the intercept, which is no feature, where none is named."""
    if not numbers:
        return slot != INTERCEPT_NUMBER
    return functools.reduce(jnp.logical_or, (slot == number for number in numbers))
