"""The linear part that algorithms share: the sum of the weights of an example's features."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .base import Inputs
from .lookups import totals


def linear_scores(weights: jax.Array, inputs: Inputs) -> jax.Array:
    """Return the sum of weight x value over the features of each example, for each label.

    Args:
        weights: float32[n, num_labels].
        inputs: one batch.

    Returns:
        float32[batch, num_labels]
    """
    # Vectors are summed several times faster than matrices of one column.
    return jnp.stack([column_scores(weights[:, label], inputs) for label in range(weights.shape[1])], axis=1)


def column_scores(column: jax.Array, inputs: Inputs) -> jax.Array:
    batch = len(inputs.weight)
    total = totals(column, inputs.scalar)
    if inputs.bag_index.size:
        values = column.at[inputs.bag_index].get(mode="promise_in_bounds") * inputs.bag_weight
        total += jax.ops.segment_sum(values, inputs.bag_example, num_segments=batch)
    if inputs.dense.shape[1]:
        total += inputs.dense @ column.at[inputs.dense_index].get(mode="promise_in_bounds")
    return total
