"""How fast scores change as the slots of an example come in: what integrated gradients add up."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...algorithms.augments.pairs import pairs_of
from ...algorithms.base import Algorithm, Inputs, Layout
from ...algorithms.blocks.base import Blocks, beside, each, every
from ...algorithms.layers.lookups import taken
from ..input.operator_inputs import Offered
from ..training.online.step import KEPT, complete


class Presence(NamedTuple):
    """By how much each feature of each example is there: its row, or of a number its value, is multiplied by that.

    Attributes:
        scalar: float32[num_scalar, batch], without the intercept.
        bag: float32[num_values].
        dense: float32[batch, num_dense].
        blocks: for each record of a block an array of the shape that its `present` gives.
    """

    scalar: jax.Array
    bag: jax.Array
    dense: jax.Array
    blocks: Blocks


class Slopes(NamedTuple):
    """Scores of examples at a point between no slots and all, and their derivatives by the presence of each slot there.

    Attributes:
        scores: float32[batch, num_labels].
        by_slot: float32[batch, num_labels, num_slots], in the order of Layout.slots.
    """

    scores: jax.Array
    by_slot: jax.Array


Slope = Callable[[Mapping[str, Any], Inputs, Offered | None, Any], Slopes]


@functools.lru_cache(maxsize=KEPT)
def slope_step(algorithm: Algorithm, layout: Layout) -> Slope:
    """Return the jitted step: (parameters, inputs, offered, presence of every slot, from 0 to 1) -> slopes."""
    return jax.jit(functools.partial(slopes, algorithm, layout))


def slopes(
    algorithm: Algorithm,
    layout: Layout,
    parameters: Mapping[str, jax.Array],
    inputs: Inputs,
    offered: Offered | None,
    presence: jax.Array,
) -> Slopes:
    """Score a batch whose slots are there in part, the intercept as a whole."""
    inputs = complete(algorithm, inputs, offered)
    rows, alone = apart(inputs)
    tables = {table.name: taken(parameters[table.name], rows) for table in algorithm.tables}
    if inputs.statistics is not None:
        alone = alone._replace(statistics=taken(inputs.statistics, rows))

    def scores(there: Presence) -> jax.Array:
        shares = [there.scalar, jnp.ones_like(inputs.scalar[len(layout.scalar) :], jnp.float32), there.bag]
        shares += [share for one, share in beside(inputs.blocks, there.blocks) if one.rows is not None]
        shares.append(jnp.ones(len(inputs.dense_index), jnp.float32))  # of a number the value is there, or is not
        scale = jnp.concatenate([share.reshape(-1) for share in shares])[:, None]
        rows_of = {name: values * scale for name, values in tables.items()}
        scaled = each(alone.blocks, there.blocks, lambda one, share: one.scaled(share))
        seen = alone._replace(dense=inputs.dense * there.dense, blocks=scaled)
        found: jax.Array = algorithm.scores({**parameters, **rows_of}, seen)
        return found

    found, backward = jax.vjp(scores, everywhere(presence, inputs, layout))
    labels = jnp.eye(found.shape[1], dtype=found.dtype)
    bags = [*range(len(layout.bags)), *(pairs.history for pairs in pairs_of(algorithm.learns) if pairs.beside)]
    owned = inputs._replace(bags=inputs.bags._replace(slot=jnp.array(bags, jnp.int32)[inputs.bags.slot])) if bags else inputs
    by_label = [by_slot(backward(jnp.broadcast_to(label, found.shape))[0], owned, layout) for label in labels]
    return Slopes(found, jnp.stack(by_label, axis=1))


def apart(inputs: Inputs) -> tuple[jax.Array, Inputs]:
    """Return the inputs with a row of its own for each feature of each example, and which of the rows each of those is.

    Rows are of categorical slots and the intercept, of multi-valued slots, of blocks, and of numbers, one after the other.
    """
    records = [one.rows for own in inputs.blocks.values() for one in own if one.rows is not None]
    index = [jnp.asarray(inputs.scalar), inputs.bags.rows, *records, inputs.dense_index]
    ends, numbered = 0, []
    for rows in index:
        numbered.append(jnp.arange(ends, ends + rows.size, dtype=jnp.int32).reshape(rows.shape))
        ends += rows.size
    scalar, bag, *of_records, dense = numbered
    left = iter(of_records)
    alone = inputs._replace(
        scalar=scalar,
        bags=inputs.bags._replace(rows=bag),
        blocks=every(inputs.blocks, lambda one: one if one.rows is None else one.with_rows(next(left))),
        dense_index=dense,
    )
    return jnp.concatenate([rows.reshape(-1) for rows in index]), alone


def everywhere(presence: jax.Array, inputs: Inputs, layout: Layout) -> Presence:
    """Return the same presence for every feature."""

    def full(shape: tuple[int, ...]) -> jax.Array:
        return jnp.full(shape, presence, jnp.float32)

    scalar = full((len(layout.scalar), inputs.scalar.shape[1]))
    blocks = every(inputs.blocks, lambda one: full(one.present()))
    return Presence(scalar, full(inputs.bags.rows.shape), full(inputs.dense.shape), blocks)


def by_slot(found: Presence, inputs: Inputs, layout: Layout) -> jax.Array:
    """Return the sum over the features of each slot of an example, float32[batch, num_slots]."""
    batch, bags, numbers = len(inputs.weight), len(layout.bags), len(layout.continuous)
    parts = [found.scalar.T]
    if bags:
        cell = inputs.bags.example * bags + inputs.bags.slot
        parts.append(jax.ops.segment_sum(found.bag, cell, num_segments=batch * bags).reshape(batch, bags))
    parts.append(found.dense[:, :numbers])
    for _, elements in layout.vectors:
        parts.append(found.dense[:, numbers : numbers + elements].sum(axis=1, keepdims=True))
        numbers += elements
    parts += [one.by_slot(share) for one, share in beside(inputs.blocks, found.blocks)]
    return jnp.concatenate(parts, axis=1)
