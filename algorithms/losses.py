"""Loss functions, element-wise: (scores, labels) -> float32 of the same shape."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def logloss(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the negative log likelihood of labels in {0, 1} under sigmoid(scores)."""
    return jnp.logaddexp(0, scores) - labels * scores


def squared(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return half the squared error."""
    return 0.5 * (scores - labels) ** 2
