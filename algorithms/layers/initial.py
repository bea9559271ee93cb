"""Initial values of vectors, pure functions of the feature's key: the same on any shard, in any order."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from ...platform.operators.base import mixed

SPLIT = (1 << 12) + 1


def uniform(scale: float, dim: int) -> Callable[[int, jax.Array], jax.Array]:
    """Return (seed, keys uint32[n, 2]) -> float32[n, dim], uniform around 0 with this standard deviation."""
    limit = scale * math.sqrt(3)

    def init(seed: int, keys: jax.Array) -> jax.Array:
        element = jnp.arange(dim, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9) + jnp.uint32(seed)
        bits = mixed(keys[:, :1] ^ mixed(keys[:, 1:] ^ mixed(element)[None, :]))
        found: jax.Array = jax.lax.platform_dependent(
            (bits >> 8).astype(jnp.float32), cpu=functools.partial(moved, limit), default=functools.partial(moved_once, limit)
        )
        return found

    return init


def moved(limit: float, whole: jax.Array) -> jax.Array:
    """Return whole numbers below 2^24, as floats, moved to between -limit and limit; on CPUs the product is not rounded by
    itself: XLA has them multiply and add at once."""
    found: jax.Array = whole * (2 * limit / (1 << 24)) - limit
    return found


def moved_once(limit: float, whole: jax.Array) -> jax.Array:
    """Return the same bits where a device rounds the product by itself.

    Source: Dekker, A Floating-Point Technique for Extending the Available Precision, 1971; and Knuth's sum of two numbers.
    """
    step, low = jnp.float32(2 * limit / (1 << 24)), jnp.float32(limit)
    product = whole * step
    lost = lost_of_product(whole, step, product)
    total = product - low
    back = total - product
    found: jax.Array = total + (((product - (total - back)) - (low + back)) + lost)
    return found


def lost_of_product(first: jax.Array, second: jax.Array, product: jax.Array) -> jax.Array:
    """Return what rounding took off a product, exactly."""
    (first_high, first_low), (second_high, second_low) = halves(first), halves(second)
    rest = first_high * second_high - product
    return ((rest + first_high * second_low) + first_low * second_high) + first_low * second_low


def halves(values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return two floats of twelve bits each that sum up to each value."""
    scaled = values * SPLIT
    high = scaled - (scaled - values)
    return high, values - high
