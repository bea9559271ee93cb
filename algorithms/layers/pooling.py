"""The vectors of an example's slots: those of its features, pooled slot by slot."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ..base import Inputs, Layout
from .lookups import gathered, taken
from .stacked import Stacked

POOLINGS = ("sum", "mean", "root")
SMALLEST = 1e-6


def slot_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str) -> jax.Array:
    """Return the vector of each categorical slot, then of each multi-valued and weighted one, zeros where it is absent.

    Args:
        vectors: float32[n, dim].
        inputs: one batch.
        pooling: what a slot of several values has: their weighted sum, that over the sum of weights without
            sign (mean), or that over its square root (root).

    Returns:
        float32[batch, slots, dim]
    """
    scalar = gathered(vectors, inputs.scalar[: len(layout.scalar)])
    return jnp.concatenate([scalar, bag_vectors(vectors, inputs, layout, pooling)], axis=1) if layout.bags else scalar


def stacked(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str, *more: jax.Array) -> Stacked:
    """Return what slot_vectors has and `more`, each float32[batch, k], as a network's inputs."""
    batch = len(inputs.weight)
    bags = (bag_vectors(vectors, inputs, layout, pooling).reshape(batch, -1),) if layout.bags else ()
    return Stacked(vectors, inputs.scalar[: len(layout.scalar)], jnp.concatenate([*bags, *more], axis=1))


def bag_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str) -> jax.Array:
    """Return the vectors of multi-valued and weighted slots, float32[batch, slots, dim]."""
    batch, slots = len(inputs.weight), len(layout.bags)
    place = inputs.bag_example * slots + inputs.bag_slot
    values = taken(vectors, inputs.bag_index) * inputs.bag_weight[:, None]
    pooled = jax.ops.segment_sum(values, place, num_segments=batch * slots)
    if pooling != "sum":
        weight = jax.ops.segment_sum(jnp.abs(inputs.bag_weight), place, num_segments=batch * slots)
        weight = jnp.maximum(weight, SMALLEST)
        pooled = pooled / (weight if pooling == "mean" else jnp.sqrt(weight))[:, None]
    return pooled.reshape(batch, slots, -1)


def first_values(inputs: Inputs, num_bags: int, chosen: Sequence[int], most: int) -> Inputs:
    """Return the inputs with the first `most` values of each example's chosen multi-valued slots; others weigh nothing.

    Args:
        chosen: numbers as in `bag_slot`.
    """
    cell = inputs.bag_example * num_bags + inputs.bag_slot
    place = jnp.arange(len(cell))
    first = jax.ops.segment_min(place, cell, num_segments=len(inputs.weight) * num_bags)
    late = (place - first[cell] >= most) & jnp.isin(inputs.bag_slot, jnp.array(chosen, jnp.int32))
    return inputs._replace(bag_weight=jnp.where(late, 0, inputs.bag_weight))


def all_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str) -> jax.Array:
    """Return the vector of every slot, float32[batch, slots, dim]: those of slot_vectors, then those of dense_vectors."""
    pooled = slot_vectors(vectors, inputs, layout, pooling)
    if not (layout.continuous or layout.vectors):
        return pooled
    return jnp.concatenate([pooled, dense_vectors(vectors, inputs, layout)], axis=1)


def slot_rows(vectors: jax.Array, inputs: Inputs, layout: Layout) -> tuple[jax.Array, jax.Array]:
    """Return rows and, for each slot and example, which of them is its vector: a feature's own, or one summed of several that
    stands after the others.

    Returns:
        float32[more, dim], int32[slots, batch]
    """
    own, batch, dim = inputs.scalar[: len(layout.scalar)], len(inputs.weight), vectors.shape[1]
    summed = [bag_vectors(vectors, inputs, layout, "sum")] if layout.bags else []
    summed += [dense_vectors(vectors, inputs, layout)] if layout.continuous or layout.vectors else []
    if not summed:
        return vectors, own
    more = jnp.concatenate(summed, axis=1).reshape(-1, dim)
    numbers = len(vectors) + jnp.arange(len(more), dtype=jnp.int32).reshape(batch, -1).T
    return jnp.concatenate([vectors, more]), jnp.concatenate([own, numbers])


def dense_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout) -> jax.Array:
    """Return the vector of each continuous slot, its value times its vector, then of each slot that is a dense vector, the sum
    over its elements.

    Args:
        vectors: float32[n, dim].
        inputs: one batch.

    Returns:
        float32[batch, slots, dim]
    """
    own = taken(vectors, inputs.dense_index)
    first = len(layout.continuous)
    parts = [inputs.dense[:, :first, None] * own[None, :first]]
    for _, elements in layout.vectors:
        parts.append((inputs.dense[:, first : first + elements] @ own[first : first + elements])[:, None])
        first += elements
    return jnp.concatenate(parts, axis=1)
