"""Updates of weights: scale, clip, zero, quantise, reinit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..errors import Subject
from ..operators.base import Context, Rows
from ..options import Part, option
from .base import RowTable, Update


def of_slot(slot: str, update: str, table: RowTable) -> Callable[[Context], jax.Array]:
    """Return what says which rows, bool[n], are of a slot; all rows where none is named.

    Raises:
        OptionError: no slot of that name has rows.
    """
    if not slot:
        return lambda context: context.valid
    number = table.number(slot, Subject("APPLY", update, "slot"))
    return lambda context: context.valid & (context.slot == number)


def changing(w: Callable[[Rows], jax.Array], chosen: Callable[[Context], jax.Array]) -> Callable[[Rows, Context], Rows]:
    """Return what gives rows that are chosen other weights."""

    def update(rows: Rows, context: Context) -> Rows:
        return {**rows, "w": jnp.where(chosen(context)[:, None], w(rows), rows["w"])}

    return update


@dataclass(frozen=True)
class ScaleOptions:
    """Options of scale."""

    factor: float = option(1.0, "what weights are multiplied by", minimum=-1e6, maximum=1e6)
    slot: str = option("", "features of this slot alone")
    table: str = option("", "whose rows; by default all tables'")


def scale(options: ScaleOptions, table: RowTable) -> Update:
    """Multiply weights by a factor."""
    return Update(changing(lambda rows: rows["w"] * options.factor, of_slot(options.slot, "scale", table)))


@dataclass(frozen=True)
class ClipOptions:
    """Options of clip."""

    max: float = option(1.0, "what |w| may be; of a vector, its norm where `by` says so", minimum=0, open_minimum=True)
    by: str = option("element", "each element is clipped, or a vector is shortened", choices=("element", "norm"))
    slot: str = option("", "features of this slot alone")
    table: str = option("", "whose rows; by default all tables'")


def clip(options: ClipOptions, table: RowTable) -> Update:
    """Bring weights back to a range: no element, or no vector, is greater than max."""

    def clipped(rows: Rows) -> jax.Array:
        w = rows["w"]
        if options.by == "element":
            return jnp.clip(w, -options.max, options.max)
        norm = jnp.sqrt((w * w).sum(1, keepdims=True))
        return jnp.where(norm > options.max, w * (options.max / jnp.maximum(norm, options.max)), w)

    return Update(changing(clipped, of_slot(options.slot, "clip", table)))


@dataclass(frozen=True)
class ZeroOptions:
    """Options of zero."""

    below: float = option(1e-4, "elements with |w| below it become 0", minimum=0)
    slot: str = option("", "features of this slot alone")
    table: str = option("", "whose rows; by default all tables'")


def zero(options: ZeroOptions, table: RowTable) -> Update:
    """Set small weights to 0; rows stay, with their statistics."""

    def cut(rows: Rows) -> jax.Array:
        return jnp.where(jnp.abs(rows["w"]) < options.below, 0, rows["w"])

    return Update(changing(cut, of_slot(options.slot, "zero", table)))


@dataclass(frozen=True)
class QuantiseOptions:
    """Options of quantise."""

    bits: int = option(8, "of each element: its row's greatest size is cut into 2^(bits - 1) - 1 steps", minimum=2, maximum=16)
    slot: str = option("", "features of this slot alone")
    table: str = option("", "whose rows; by default all tables'")


def quantise(options: QuantiseOptions, table: RowTable) -> Update:
    """Round weights to what few bits and a scale of the row hold, to see what that costs. For versions: learning undoes it."""
    steps = float(2 ** (options.bits - 1) - 1)

    def rounded(rows: Rows) -> jax.Array:
        w = rows["w"]
        size = jnp.abs(w).max(1, keepdims=True)
        step = size / steps
        return jnp.where(size > 0, jnp.round(w / jnp.where(step > 0, step, 1)) * step, w)

    return Update(changing(rounded, of_slot(options.slot, "quantise", table)), once=True)


@dataclass(frozen=True)
class ReinitOptions:
    """Options of reinit."""

    seed: int = option(7, "of the weights that are drawn", minimum=0, maximum=2**31 - 1)
    slot: str = option("", "features of this slot alone")
    table: str = option("", "whose rows; by default all tables'")


def reinit(options: ReinitOptions, table: RowTable) -> Update:
    """Give weights anew what new rows begin with: 0, or what seed and key draw. For versions."""

    def update(rows: Rows, context: Context) -> Rows:
        w = jnp.zeros_like(rows["w"]) if table.init is None else table.init(options.seed, context.keys)
        return {**rows, "w": jnp.where(chosen(context)[:, None], w, rows["w"])}

    chosen = of_slot(options.slot, "reinit", table)
    return Update(update, once=True)


SCALE = Part("scale", ScaleOptions, scale)
CLIP = Part("clip", ClipOptions, clip)
ZERO = Part("zero", ZeroOptions, zero)
QUANTISE = Part("quantise", QuantiseOptions, quantise)
REINIT = Part("reinit", ReinitOptions, reinit)
