"""Pooling: the vector of each slot of an example, from the vectors of its features."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..base import Inputs, Layout
from ..shared_inputs import CommonLines, Group, of_places
from .lookups import PLAIN, gathered, spread, sums, taken
from .stacked import Common, Stacked

POOLINGS = ("sum", "mean", "root")
SMALLEST = 1e-6
NEVER = 2**31 - 1


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
    batch = inputs.batch
    own, index, group = list(range(len(layout.bags))), inputs.scalar[: len(layout.scalar)], inputs.group
    common = None
    if group is not None and group.bags:
        dim, own = vectors.shape[1], [bag for bag in own if bag not in group.bags]
        pooled = values_of_group(group).vectors(vectors, len(layout.bags), pooling)[:, jnp.array(group.bags, jnp.int32)]
        columns = tuple(bag * dim + element for bag in group.bags for element in range(dim))
        common = Common(pooled.reshape(group.size, -1), group.owner, columns)
    bags: tuple[jax.Array, ...] = ()
    if own:
        pooled = values_of_examples(inputs).vectors(vectors, len(layout.bags), pooling)
        bags = ((pooled if len(own) == len(layout.bags) else pooled[:, jnp.array(own)]).reshape(batch, -1),)
    return Stacked(vectors, index, jnp.concatenate([*bags, *more], axis=1), common)


def bag_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str) -> jax.Array:
    """Return the vectors of multi-valued and weighted slots, float32[batch, slots, dim]."""
    group, slots = inputs.group, len(layout.bags)
    pooled = values_of_examples(inputs).vectors(vectors, slots, pooling)
    if group is None or not group.bags:
        return pooled
    return pooled + spread(values_of_group(group).vectors(vectors, slots, pooling), group.owner)


class SlotValues(NamedTuple):
    """The values of multi-valued and weighted slots, of examples or of groups of them.

    Attributes:
        rows, owner, slot: int32[k], the row of each, its example or group, and its slot.
        weight: float32[k].
        size: how many examples or groups there are.
    """

    rows: jax.Array
    owner: jax.Array
    slot: jax.Array
    weight: jax.Array
    size: int

    def vectors(self, vectors: jax.Array, slots: int, pooling: str) -> jax.Array:
        """Return the pooled vectors of slots, float32[size, slots, dim]."""
        pooled = self.summed_by_slot(taken(vectors, self.rows) * self.weight[:, None], slots)
        if pooling != "sum":
            weight = jnp.maximum(self.summed_by_slot(jnp.abs(self.weight), slots), SMALLEST)
            pooled = pooled / (weight if pooling == "mean" else jnp.sqrt(weight))[:, :, None]
        return pooled

    def shares(self, slots: int, pooling: str) -> jax.Array:
        """Return weights with which sums give the pooled values, float32[k]."""
        total = jnp.maximum(self.summed_by_slot(jnp.abs(self.weight), slots), SMALLEST)[self.owner, self.slot]
        return self.weight / (total if pooling == "mean" else jnp.sqrt(total))

    def summed_by_slot(self, values: jax.Array, slots: int) -> jax.Array:
        """Return the sums of values float32[k, ...] of each slot, float32[size, slots, ...]."""
        shape = self.size, slots, *values.shape[1:]
        if PLAIN.get():  # exports know no axis of a multiple of the batch
            return jnp.zeros(shape, values.dtype).at[self.owner, self.slot].add(values)
        place = self.owner * slots + self.slot
        return jax.ops.segment_sum(values, place, num_segments=self.size * slots).reshape(shape)

    def summed(self, values: jax.Array) -> jax.Array:
        """Return the sums of values float32[k, ...], float32[size, ...]."""
        return jax.ops.segment_sum(values, self.owner, num_segments=self.size)


def values_of_examples(inputs: Inputs) -> SlotValues:
    """Return the values that examples have of their own."""
    return SlotValues(*inputs.bags, inputs.batch)


def values_of_group(group: Group) -> SlotValues:
    """Return the values that groups have in common."""
    return SlotValues(*group.values, group.size)


def pooled(inputs: Inputs, layout: Layout, pooling: str) -> Inputs:
    """Return inputs whose sums over the values of multi-valued and weighted slots are what is pooled; see slot_vectors."""
    if pooling == "sum" or not layout.bags:
        return inputs
    inputs = inputs._replace(bags=inputs.bags._replace(weight=values_of_examples(inputs).shares(len(layout.bags), pooling)))
    group = inputs.group
    if group is None or not group.bags:
        return inputs
    shares = values_of_group(group).shares(len(layout.bags), pooling)
    return inputs._replace(group=dataclasses.replace(group, values=group.values._replace(weight=shares)))


def over_values(inputs: Inputs, value: Callable[[jax.Array, jax.Array], jax.Array]) -> jax.Array | None:
    """Return the sum over an example's values of all multi-valued and weighted slots, float32[batch, ...]; None without any.

    Args:
        value: (rows int32[k], weights float32[k]) -> float32[k, ...].
    """
    total = None
    if inputs.bags.rows.size:
        own = values_of_examples(inputs)
        total = own.summed(value(own.rows, own.weight))
    if (group := inputs.group) is not None and group.values.rows.size:
        common = values_of_group(group)
        shared = spread(common.summed(value(common.rows, common.weight)), group.owner)
        total = shared if total is None else total + shared
    return total


def first_values(inputs: Inputs, num_bags: int, chosen: Sequence[int], most: int) -> Inputs:
    """Return the inputs with the first `most` values of each example's chosen multi-valued slots; others weigh nothing.

    Args:
        chosen: numbers as in `BagRows.slot`.
    """
    cell, place = (inputs.bags.example, inputs.bags.slot), jax.lax.iota(jnp.int32, inputs.bags.slot.shape[0])
    latest = jnp.zeros((inputs.batch, num_bags), jnp.int32) + NEVER
    first = latest.at[cell].min(place, mode="promise_in_bounds").at[cell].get(mode="promise_in_bounds")
    late = (place - first >= most) & jnp.isin(inputs.bags.slot, jnp.array(chosen, jnp.int32))
    return inputs._replace(bags=inputs.bags._replace(weight=jnp.where(late, 0, inputs.bags.weight)))


def first_bags(inputs: Inputs, num_bags: int) -> Inputs:
    """Return the inputs without the values of multi-valued slots after the first ones: pairs of items stand there."""
    bags = inputs.bags
    there = bags.slot < num_bags
    return inputs._replace(bags=bags._replace(slot=jnp.where(there, bags.slot, 0), weight=jnp.where(there, bags.weight, 0)))


def all_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str) -> jax.Array:
    """Return the vector of every slot, float32[batch, slots, dim]: first slot_vectors', then dense_vectors'."""
    pooled = slot_vectors(vectors, inputs, layout, pooling)
    if not (layout.continuous or layout.vectors):
        return pooled
    return jnp.concatenate([pooled, dense_vectors(vectors, inputs, layout)], axis=1)


def chosen_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str, slots: Sequence[int]) -> jax.Array:
    """Return the vectors of some slots, by their places among all_vectors', float32[batch, k, dim]."""
    return beside_each_other(
        slots,
        layout,
        lambda lines: gathered(vectors, jnp.stack([inputs.scalar[line] for line in lines])),
        lambda bags: bag_vectors(vectors, inputs, layout, pooling)[:, jnp.array(bags)],
        lambda numbers: dense_vectors(vectors, inputs, layout)[:, jnp.array(numbers)],
    )


def common_vectors(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str, slots: Sequence[int]) -> jax.Array | None:
    """Return the same of groups of examples, float32[groups, k, dim]; None where one of the slots is not in common."""
    group, scalar, lines = inputs.group, inputs.scalar, len(layout.scalar)
    if group is None or not isinstance(scalar, CommonLines):
        return None
    if not all(scalar.common[slot] if slot < lines else slot - lines in group.bags for slot in slots):
        return None
    places = scalar.places(True)
    return beside_each_other(
        slots,
        layout,
        lambda lines: gathered(vectors, of_places(scalar.shared, [places[line] for line in lines])),
        lambda bags: values_of_group(group).vectors(vectors, len(layout.bags), pooling)[:, jnp.array(bags)],
    )


def beside_each_other(slots: Sequence[int], layout: Layout, *of_kinds: Callable[[list[int]], jax.Array]) -> jax.Array:
    """Return the vectors of some slots in order, [n, k, dim], by what gives those of categorical slots, of multi-valued and
    weighted ones, and of numbers, each counted from 0."""
    bounds = 0, len(layout.scalar), len(layout.scalar) + len(layout.bags), len(layout.slots)
    chosen = [[slot for slot in slots if first <= slot < last] for first, last in itertools.pairwise(bounds)]
    order = list(itertools.chain(*chosen))
    kinds = zip(of_kinds, chosen, bounds, strict=False)
    both = jnp.concatenate([of([slot - first for slot in own]) for of, own, first in kinds if own], axis=1)
    return both if order == list(slots) else both[:, jnp.array([order.index(slot) for slot in slots])]


def slot_sums(vectors: jax.Array, inputs: Inputs, layout: Layout, pooling: str) -> tuple[jax.Array, jax.Array]:
    """Return the sums over slots of the vectors of all_vectors, and of their squares, float32[batch, dim] both: what examples
    have in common is summed once."""
    total, squares = sums(vectors, inputs.scalar[: len(layout.scalar)])
    if layout.bags:
        own, squared = summed_slots(values_of_examples(inputs).vectors(vectors, len(layout.bags), pooling))
        total, squares = total + own, squares + squared
        if (group := inputs.group) is not None and group.bags:
            common = summed_slots(values_of_group(group).vectors(vectors, len(layout.bags), pooling))
            own, squared = jnp.split(spread(jnp.concatenate(common, axis=1), group.owner), 2, axis=1)
            total, squares = total + own, squares + squared
    if layout.continuous or layout.vectors:
        own, squared = summed_slots(dense_vectors(vectors, inputs, layout))
        total, squares = total + own, squares + squared
    return total, squares


def summed_slots(slots: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the sums over the second axis, and of the squares."""
    return slots.sum(axis=1), (slots * slots).sum(axis=1)


def slot_rows(vectors: jax.Array, inputs: Inputs, layout: Layout) -> tuple[jax.Array, jax.Array]:
    """Return rows and, for each slot and example, which of them is its vector: a feature's own, or one summed of several that
    stands after the others.

    Returns:
        float32[more, dim], int32[slots, batch]
    """
    own, batch, dim = jnp.asarray(inputs.scalar[: len(layout.scalar)]), inputs.batch, vectors.shape[1]
    summed = [bag_vectors(vectors, inputs, layout, "sum")] if layout.bags else []
    summed += [dense_vectors(vectors, inputs, layout)] if layout.continuous or layout.vectors else []
    if not summed:
        return vectors, own
    more = jnp.concatenate(summed, axis=1)
    slot, example = (jax.lax.broadcasted_iota(jnp.int32, (more.shape[1], batch), axis) for axis in (0, 1))
    numbers = vectors.shape[0] + more.shape[1] * example + slot
    return jnp.concatenate([vectors, more.reshape(-1, dim)]), jnp.concatenate([own, numbers])


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
