"""The optimizer FTRL-Proximal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, Subject
from ..options import Part, option
from .base import Column, Context, Floats, Operator, Rows, TableSpec

EIGHTHS = 8  # the power is in these


@dataclass(frozen=True)
class FtrlOptions:
    """Options of ftrl. The defaults suit one pass over click logs."""

    alpha: float = option(0.1, "learning rate", minimum=0, open_minimum=True)
    beta: float = option(1.0, "damping of the first updates' learning rate", minimum=0, open_minimum=True)
    l1: float = option(0.0, "strength of L1: weights with |z| <= l1 are exactly 0", minimum=0)
    l2: float = option(0.0, "strength of L2", minimum=0)
    power: float = option(
        0.5,
        "power of the sum of squared gradients that divides the learning rate, in eighths; above 0.5, features settle sooner",
        minimum=0.125,
        maximum=1,
    )


def ftrl(options: FtrlOptions, table: TableSpec) -> Operator:
    """FTRL-Proximal: per-coordinate learning rates, L1 that gives exact zeros, L2.

    Per coordinate, with gradient g, it keeps z and n and derives w:

        sigma = ((n + g^2)^power - n^power) / alpha
        z <- z + g - sigma w;  n <- n + g^2
        w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + n^power) / alpha + l2)

    A new row has n = 0 and the z whose w is the table's init. Where another operator changes w, z becomes the one whose w
    that is, at the row's n; where it changes z or n, w is derived anew. A CONTINUE with other options begins at the same w
    and n: its options act on what is learned from then on.

    Source: McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013, algorithm 1, where the power is 0.5.

    Raises:
        OptionError: the power is no multiple of 0.125.
    """
    if options.power * EIGHTHS % 1:
        subject = Subject("OPERATORS", "ftrl", "power")
        raise OptionError(f"{subject} expects a multiple of 0.125, like 0.5 or 0.625, got {options.power:g}.", subject=subject)
    alpha, beta, l1, l2 = options.alpha, options.beta, options.l1, options.l2

    def scale(n: jax.Array) -> jax.Array:
        return (beta + powered(n, options.power)) / alpha + l2

    def weights(z: jax.Array, n: jax.Array) -> jax.Array:
        return jnp.sign(z) * -jnp.maximum(jnp.abs(z) - l1, 0) / scale(n)

    def z_of(w: jax.Array, n: jax.Array, z: jax.Array) -> jax.Array:
        return jnp.where(w == 0, jnp.clip(z, -l1, l1), -w * scale(n) - jnp.sign(w) * l1)

    def init_z(seed: int, keys: jax.Array) -> jax.Array:
        assert table.init is not None
        w = table.init(seed, keys)
        return z_of(w, jnp.zeros_like(w), jnp.zeros_like(w))

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        squares = rows["n"] + gradients * gradients
        sigma = (powered(squares, options.power) - powered(rows["n"], options.power)) / alpha
        z = rows["z"] + gradients - sigma * rows["w"]
        return gradients, {**rows, "z": z, "n": squares, "w": weights(z, squares)}

    def read(rows: Rows, context: Context) -> Rows:
        return {**rows, "w": weights(rows["z"], rows["n"])}

    def settle(rows: Rows, changed: Rows, context: Context) -> Rows:
        moved = changed["w"] != rows["w"]
        z = jnp.where(moved, z_of(changed["w"], changed["n"], changed["z"]), changed["z"])
        return {**changed, "z": z, "w": jnp.where(moved, changed["w"], weights(z, changed["n"]))}

    columns = {"z": Column(table.dim, None if table.init is None else init_z, merge="sum"), "n": Column(table.dim, merge="sum")}
    return Operator(columns, before, read=read, settle=settle, merge=partial(merged, options), optimizer=True, name="ftrl")


def merged(options: FtrlOptions, rows: Floats, before: Floats, apart: Sequence[Floats]) -> Floats:
    """Give the sum of several trainings' z the weight at which the sum of their proximal functions is least.

    Each holds its w by what its own n has grown, and these add up to more than what the sum of n has grown. See Operator.merge.
    """

    def held(n: NDArray[np.float64]) -> NDArray[np.float64]:
        return (options.beta + n**options.power) / options.alpha + options.l2

    first, z, l1 = held(before["n"]), rows["z"], options.l1
    together = first + sum(held(one["n"]) - first for one in apart)
    beyond = np.maximum(np.abs(z) - l1, 0) * held(rows["n"]) / together
    return {**rows, "z": np.sign(z) * (np.minimum(np.abs(z), l1) + beyond)}


def powered(n: jax.Array, power: float) -> jax.Array:
    """Return n^power by square roots alone, which are the same bits wherever they are computed."""
    parts, root, eighths = [], n, int(power * EIGHTHS)
    for eighth in (8, 4, 2, 1):
        if eighths & eighth:
            parts.append(root)
        if eighths % eighth == 0:
            break
        root = jnp.sqrt(root)
    return math.prod(parts[1:], start=parts[0])


FTRL = Part("ftrl", FtrlOptions, ftrl)
