"""Layers x W + b, of one network or of several side by side.

XLA copies before and after it multiplies several side by side, and rectifies in a pass of its own. So on CPUs a layer is a
custom call, native/affine.cpp; elsewhere, and in exports, it is the same in JAX.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from .lookups import PLAIN, Saved, called

RECTIFIED = "relu"  # the activation that a layer applies itself


def affine(x: jax.Array, kernel: jax.Array, bias: jax.Array, rectified: bool = False) -> jax.Array:
    """Return x W + b, float32[..., units], and 0 where that is less and is to be rectified.

    Args:
        x: float32[..., inputs].
        kernel: float32[inputs, units].
        bias: float32[units].
    """
    if PLAIN.get():
        y = x @ kernel + bias
        return jax.nn.relu(y) if rectified else y
    y = side_by_side(rectified, x.reshape(-1, 1, x.shape[-1]), kernel[None], bias[None])
    return y.reshape(*x.shape[:-1], kernel.shape[1])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def side_by_side(rectified: bool, x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Return the same of several networks, float32[batch, count, units].

    Args:
        x: float32[batch, count, inputs].
        kernel: float32[count, inputs, units].
        bias: float32[count, units].
    """

    def anywhere(_: jax.Array, x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
        y = jnp.einsum("bni,niu->bnu", x, kernel) + bias
        return jax.nn.relu(y) if rectified else y

    return called("affine", anywhere, jnp.array([rectified]), x, kernel, bias)  # type: ignore[no-any-return]


def forward(rectified: bool, x: jax.Array, kernel: jax.Array, bias: jax.Array) -> tuple[jax.Array, Saved]:
    y = side_by_side(rectified, x, kernel, bias)
    return y, (x, kernel, y)


def backward(rectified: bool, saved: Saved, gradient: jax.Array) -> Saved:
    def anywhere(_: jax.Array, x: jax.Array, kernel: jax.Array, y: jax.Array, gradient: jax.Array) -> Saved:
        own = jnp.where(y > 0, gradient, 0) if rectified else gradient
        by_x, by_kernel = jnp.einsum("bnu,niu->bni", own, kernel), jnp.einsum("bni,bnu->niu", x, own)
        return by_x, by_kernel, own.sum(axis=0)

    return called("affine_gradients", anywhere, jnp.array([rectified]), *saved, gradient)  # type: ignore[no-any-return]


side_by_side.defvjp(forward, backward)
