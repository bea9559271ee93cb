"""Random numbers that are functions of what they are drawn for, so that a replay draws the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .base import Context


def mixed(bits: jax.Array) -> jax.Array:
    """Return well-mixed 32-bit integers.

    Source: the finalizer of MurmurHash3 (Appleby, 2011).
    """
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * jnp.uint32(0xC2B2AE35)
    return bits ^ (bits >> 16)


def uniform(context: Context) -> jax.Array:
    """Return float32[n] in [0, 1), a function of (seed, key, pass, split, batch)."""
    state = jnp.uint32(0x9E3779B9)
    for value in context.draw:
        state = mixed(state ^ value) + jnp.uint32(0x9E3779B9)
    bits = mixed(context.keys[:, 0] ^ mixed(context.keys[:, 1] ^ state))
    return (bits >> 8).astype(jnp.float32) / (1 << 24)
