"""Which shard holds a key, and how messages for all shards are cut into one for each and put together again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ._native import partition, put_rows, take_rows
from .aligned import empty
from .keys import NUM_SLICES, slices
from .shard import Pulled, Push
from .table import Floats, Keys


def shard_of(keys: Keys, num_shards: int) -> NDArray[np.int64]:
    """Return the number of the shard that holds each key: equal runs of the slices (the top 10 bits of the key)."""
    return slices(keys) * num_shards // NUM_SLICES


def slices_of(shard: int, num_shards: int) -> range:
    """Return the slices that a shard holds."""
    first, stop = (-(-number * NUM_SLICES // num_shards) for number in (shard, shard + 1))
    return range(first, stop)


class Placement:
    """Keys grouped by the shard that holds them.

    Args:
        keys: uint64[n].
        num_shards: how many there are.

    Attributes:
        keys: for each shard its keys, in their order.
        positions: for each shard int32[its keys], where they stand among all.
    """

    def __init__(self, keys: Keys, num_shards: int) -> None:
        grouped, order, starts = partition(keys, num_shards)
        bounds = starts.tolist()
        self.keys = [grouped[a:b] for a, b in itertools.pairwise(bounds)]
        self.positions = [order[a:b] for a, b in itertools.pairwise(bounds)]


def part_of(push: Push, placement: Placement, number: int, size: int, dense: Sequence[str]) -> Push:
    """Return the push restricted to one shard's keys and dense parameters, its gradients and weights padded to `size`."""
    where = placement.positions[number]
    touched = push.touched._replace(
        keys=placement.keys[number],
        slots=push.touched.slots[where],
        counts=push.touched.counts[where],
        clicks=push.touched.clicks[where],
    )
    updates = {name: values[where] for name, values in push.updates.items()}
    gradients, weights = (padded(rows, where, size) for rows in (push.gradients, push.weights))
    own = {name: push.dense[name] for name in dense}
    return push._replace(touched=touched, updates=updates, gradients=gradients, weights=weights, dense=own)


def padded(by_table: Mapping[str, Floats], where: NDArray[np.int32], size: int) -> dict[str, Floats]:
    """Return the rows at `where` of each table's float32[n, dim], zeros after the last."""
    parts = {name: empty((size, values.shape[1]), np.float32) for name, values in by_table.items()}
    for name, values in by_table.items():
        take_rows(values, where, parts[name])
        parts[name][len(where) :] = 0
    return parts


def merged(parts: Sequence[Pulled], placement: Placement, size: int) -> Pulled:
    """Return what was pulled from all shards as if from one, weights and what is offered padded to `size`."""
    weights = joined([part.weights for part in parts], placement, size)
    offered = joined([part.offered for part in parts], placement, size)
    updates = {name: np.empty(sum(map(len, placement.keys)), np.uint32) for name in parts[0].updates}
    for part, where in zip(parts, placement.positions, strict=True):
        for name, counts in part.updates.items():
            put_rows(updates[name], where, counts)
    dense = {name: values for part in parts for name, values in part.dense.items()}
    return Pulled(weights, updates, dense, parts[0].moments, offered)


def joined(parts: Sequence[Mapping[str, Floats]], placement: Placement, size: int) -> dict[str, Floats]:
    """Return float32[size, dim] by table of the parts of all shards, zeros after the last key."""
    whole = {name: empty((size, values.shape[1]), np.float32) for name, values in parts[0].items()}
    for part, where in zip(parts, placement.positions, strict=True):
        for name, values in part.items():
            put_rows(whole[name], where, values)
    for rows in whole.values():
        rows[sum(map(len, placement.keys)) :] = 0
    return whole
