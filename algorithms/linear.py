"""The linear part that algorithms share: the sum of the weights of an example's features."""

from __future__ import annotations

import jax

from .base import Inputs


def linear_scores(weights: jax.Array, inputs: Inputs) -> jax.Array:
    """Return the sum of weight x value over the features of each example.

    Args:
        weights: float32[n, 1].
        inputs: one batch.

    Returns:
        float32[batch, 1]
    """
    batch = len(inputs.weight)
    column = weights[:, 0]
    total = column.at[inputs.scalar].get(mode="promise_in_bounds").sum(axis=0)
    if inputs.bag_index.size:
        values = column.at[inputs.bag_index].get(mode="promise_in_bounds") * inputs.bag_weight
        total += jax.ops.segment_sum(values, inputs.bag_example, num_segments=batch)
    if inputs.dense.shape[1]:
        total += inputs.dense @ column.at[inputs.dense_index].get(mode="promise_in_bounds")
    return total[:, None]
