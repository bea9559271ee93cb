"""Whether an item is found in a sample: what models that learn what was taken are measured by while they learn."""

from __future__ import annotations

import jax

PART = 20
"""An item is found where it is among the best of so many-th part of a sample."""


def found_in(scores: jax.Array, own: jax.Array, others: jax.Array) -> jax.Array:
    """Return 1 for examples whose item is in the best twentieth of it and the others, at least the first, else 0.

    Args:
        scores: float32[batch, n], of the items of a sample.
        own: float32[batch], of each example's item.
        others: bool[batch, n], which of them are its negatives.
    """
    better = ((scores > own[:, None]) & others).sum(axis=1)
    return (PART * better < others.sum(axis=1) + 1).astype(scores.dtype)
