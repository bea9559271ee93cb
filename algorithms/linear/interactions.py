"""Interactions: what pairs of slots add to a score."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def bi_interaction(total: jax.Array, squares: jax.Array) -> jax.Array:
    """Return the sum over pairs of slots of the element-wise product of their vectors, in linear time.

    Args:
        total, squares: float32[batch, dim], the sums of slots' vectors and of their squares.

    Returns:
        float32[batch, dim]

    Source: He and Chua, "Neural Factorization Machines for Sparse Predictive Analytics", SIGIR 2017, equation 4.
    """
    return 0.5 * (total * total - squares)


def inner_products(slots: jax.Array) -> jax.Array:
    """Return the inner product of each pair of slots, float32[batch, slots (slots - 1) / 2].

    Args:
        slots: float32[batch, slots, dim].

    Source: Qu et al., "Product-based Neural Networks for User Response Prediction", ICDM 2016 (IPNN).
    """
    batch, num_slots, _ = slots.shape
    first, second = np.triu_indices(num_slots, 1)
    every = jnp.einsum("bsd,btd->bst", slots, slots).reshape(batch, -1)
    return every[:, first * num_slots + second]


def field_products(slots: jax.Array) -> jax.Array:
    """Return of each pair of slots the inner product of what each has for the other, float32[batch, slots (slots - 1) / 2].

    Args:
        slots: float32[batch, slots, slots * dim], of each slot a vector for each slot side by side.

    Source: Yang et al., "Operation-aware Neural Networks for User Response Prediction", Neural Networks 2020 (ONN).
    """
    batch, num_slots, size = slots.shape
    first, second = np.triu_indices(num_slots, 1)
    each = slots.reshape(batch, num_slots * num_slots, size // max(num_slots, 1))
    return (each[:, first * num_slots + second] * each[:, second * num_slots + first]).sum(axis=2)


def pair_score(slots: jax.Array, strength: jax.Array) -> jax.Array:
    """Return the sum over pairs of slots of the inner product of their vectors times the pair's strength.

    Args:
        slots: float32[batch, slots, dim].
        strength: float32[slots, slots]; that of i and j is the mean of [i, j] and [j, i], the diagonal is not used.

    Returns:
        float32[batch, 1]

    Source: Pan et al., "Field-weighted Factorization Machines for Click-Through Rate Prediction in Display Advertising", WWW
    2018, equation 6.
    """
    num_slots = len(strength)
    both = 0.5 * (strength + strength.T) * (1 - jnp.eye(num_slots))
    weighted = jnp.einsum("st,btd->bsd", both, slots)
    return 0.5 * (weighted * slots).sum(axis=(1, 2))[:, None]
