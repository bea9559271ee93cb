"""What operators offer for features, as dense inputs of any algorithm, whose weights are learned with the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Inputs
from ...algorithms.layers.lookups import spread
from ...algorithms.layers.pooling import SlotValues, first_bags, values_of_examples, values_of_group
from .batches import Batch


class Offered(NamedTuple):
    """What operators offer for the features of a batch.

    Attributes:
        values: float32[size, k]; of each pulled row, 0 where it is absent.
        rows: int32[num_slots * k]; the row of each input: first the categorical slots', then the multi-valued and weighted
            slots'.
    """

    values: jax.Array | NDArray[np.float32]
    rows: jax.Array | NDArray[np.int32]


def with_offered(inputs: Inputs, offered: Offered, intercept: bool) -> Inputs:
    """Return the inputs with what operators offer as the first dense ones.

    Args:
        intercept: the last line of `inputs.scalar` is the intercept's.
    """
    scalar = jnp.asarray(inputs.scalar[:-1] if intercept else inputs.scalar)
    batch, k = inputs.batch, offered.values.shape[1]
    values = jnp.asarray(offered.values)
    taken = values.at[scalar].get(mode="promise_in_bounds")
    rows = jnp.concatenate([jnp.asarray(offered.rows), inputs.dense_index])
    columns = [taken.transpose(1, 0, 2).reshape(batch, -1)]
    num_bags = len(offered.rows) // k - len(scalar)
    if num_bags:
        columns.append(bag_means(inputs, values, num_bags).reshape(batch, -1))
    return inputs._replace(dense=jnp.concatenate([*columns, inputs.dense], 1), dense_index=rows)


def bag_means(inputs: Inputs, values: jax.Array, num_bags: int) -> jax.Array:
    """Return the mean over an example's values of each multi-valued or weighted slot, float32[batch, num_bags, k]."""

    def means(own: SlotValues) -> jax.Array:
        there = (own.weight != 0).astype(jnp.float32)[:, None]
        summed = jnp.concatenate([values.at[own.rows].get(mode="promise_in_bounds") * there, there], 1)
        total = own.summed_by_slot(summed, num_bags)
        return total[:, :, :k] / jnp.maximum(total[:, :, k:], 1)

    k, group = values.shape[1], inputs.group
    found = means(values_of_examples(first_bags(inputs, num_bags)))
    return found if group is None else found + spread(means(values_of_group(group)), group.owner)


def offered_of(batch: Batch, values: Mapping[str, NDArray[np.float32]]) -> Offered | None:
    """Return what operators offer for a batch's features, as the step takes it; None where they offer nothing.

    Args:
        values: as pulled: float32[size, k], from the one table that has them.
    """
    return next((Offered(offered, batch.offered_index) for offered in values.values()), None)
