"""Initial values of vectors, pure functions of the feature's key: the same on any shard, in any order."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from ...platform.operators.base import mixed


def uniform(scale: float, dim: int) -> Callable[[int, jax.Array], jax.Array]:
    """Return (seed, keys uint32[n, 2]) -> float32[n, dim], uniform around 0 with this standard deviation."""
    limit = scale * math.sqrt(3)

    def init(seed: int, keys: jax.Array) -> jax.Array:
        element = jnp.arange(dim, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9) + jnp.uint32(seed)
        bits = mixed(keys[:, :1] ^ mixed(keys[:, 1:] ^ mixed(element)[None, :]))
        return (bits >> 8).astype(jnp.float32) * (2 * limit / (1 << 24)) - limit

    return init
