"""The vectors of an example's slots: those of its features, pooled slot by slot."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .base import Inputs, Layout

SMALLEST = 1e-6


def slot_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, mean: bool) -> jax.Array:
    """Return the vector of each categorical slot, then of each multi-valued and weighted one, zeros where it is absent.

    Args:
        vectors: float32[n, dim].
        inputs: one batch.
        mean: a slot of several values has their weighted mean, else their weighted sum.

    Returns:
        float32[batch, slots, dim]
    """
    scalar = vectors.at[inputs.scalar[: len(layout.scalar)].T].get(mode="promise_in_bounds")
    return jnp.concatenate([scalar, bag_vectors(vectors, inputs, layout, mean)], axis=1) if layout.bags else scalar


def bag_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, mean: bool) -> jax.Array:
    """Return the vectors of multi-valued and weighted slots, float32[batch, slots, dim]."""
    batch, slots = len(inputs.weight), len(layout.bags)
    place = inputs.bag_example * slots + inputs.bag_slot
    values = vectors.at[inputs.bag_index].get(mode="promise_in_bounds") * inputs.bag_weight[:, None]
    pooled = jax.ops.segment_sum(values, place, num_segments=batch * slots)
    if mean:
        weight = jax.ops.segment_sum(jnp.abs(inputs.bag_weight), place, num_segments=batch * slots)
        pooled = pooled / jnp.maximum(weight, SMALLEST)[:, None]
    return pooled.reshape(batch, slots, -1)


def dense_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout) -> jax.Array:
    """Return the vector of each continuous slot, its value times its vector, then of each slot that is a dense vector, the sum
    over its elements.

    Args:
        vectors: float32[n, dim].
        inputs: one batch.

    Returns:
        float32[batch, slots, dim]
    """
    own = vectors.at[inputs.dense_index].get(mode="promise_in_bounds")
    first = len(layout.continuous)
    parts = [inputs.dense[:, :first, None] * own[None, :first]]
    for _, elements in layout.vectors:
        parts.append((inputs.dense[:, first : first + elements] @ own[first : first + elements])[:, None])
        first += elements
    return jnp.concatenate(parts, axis=1)
