"""Placement: the shard of each key, and the cutting of messages for all shards into one for each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._native import partition, put_rows, take_rows
from .compiled.aligned import empty
from .compiled.ladder import Ladder
from .keys import NUM_SLICES, slices
from .messages import Floats, Keys, Pulled, Push

T = TypeVar("T", bound=np.generic)
A = TypeVar("A", bound=NDArray[Any])


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
        ladder: the sizes that rows are padded to.

    Attributes:
        of: the keys, as given.
        keys: for each shard its keys, in their order.
        positions: for each shard int32[its keys], where they stand among all.
        sizes: for each shard how many rows its gradients and weights have, at least as many as it has keys.
    """

    def __init__(self, keys: Keys, num_shards: int, ladder: Ladder) -> None:
        ordered, self._order, starts = partition(keys, num_shards)
        bounds = starts.tolist()
        self.of = keys
        self._runs = [slice(a, b) for a, b in itertools.pairwise(bounds)]
        self.keys = [ordered[run] for run in self._runs]
        self.positions = [self._order[run] for run in self._runs]
        self.sizes = [ladder.size(len(part)) for part in self.keys]

    def grouped(self, values: NDArray[T]) -> list[NDArray[T]]:
        """Return the values [n] of each shard's keys."""
        whole = np.empty(len(self._order), values.dtype)
        take_rows(values, self._order, whole)
        return [whole[run] for run in self._runs]

    def padded(self, values: Floats) -> list[Floats]:
        """Return the rows [n, dim] of each shard's keys as [its size, dim]; values after the last row are undefined."""
        n = len(self._order)
        whole = empty((n + max(self.sizes), values.shape[1]), values.dtype)
        take_rows(values, self._order, whole)
        whole[n:] = 0
        return [whole[run.start : run.start + size] for run, size in zip(self._runs, self.sizes, strict=True)]


def parts_of(push: Push, placement: Placement, dense: Sequence[Sequence[str]]) -> list[Push]:
    """Return the push restricted to each shard's keys and dense parameters.

    Args:
        dense: the names of each shard's dense parameters.
    """
    touched, num_shards = push.touched, len(placement.keys)
    slots = placement.grouped(touched.slots)
    counts, clicks = placement.grouped(touched.counts), placement.grouped(touched.clicks)
    updates = by_shard(push.updates, placement.grouped, num_shards)
    gradients = by_shard(push.gradients, placement.padded, num_shards)
    weights = by_shard(push.weights, placement.padded, num_shards)
    return [
        push._replace(
            touched=touched._replace(keys=keys, slots=slots[i], counts=counts[i], clicks=clicks[i]),
            updates=updates[i],
            gradients=gradients[i],
            weights=weights[i],
            dense={name: push.dense[name] for name in dense[i] if name in push.dense},
            dense_updates={name: push.dense_updates[name] for name in dense[i] if name in push.dense_updates},
            dense_weights={name: push.dense_weights[name] for name in dense[i] if name in push.dense_weights},
        )
        for i, keys in enumerate(placement.keys)
    ]


def by_shard(arrays: Mapping[str, A], divided: Callable[[A], Sequence[A]], num_shards: int) -> list[dict[str, A]]:
    """Return each shard's parts of some arrays."""
    parts = {name: divided(values) for name, values in arrays.items()}
    return [{name: own[i] for name, own in parts.items()} for i in range(num_shards)]


def merged(parts: Sequence[Pulled], placement: Placement, size: int) -> Pulled:
    """Return what was pulled from all shards as if from one, weights and what is offered padded to `size`."""
    weights = joined([part.weights for part in parts], placement, size)
    offered = joined([part.offered for part in parts], placement, size)
    updates = {name: np.empty(sum(map(len, placement.keys)), np.uint32) for name in parts[0].updates}
    for part, where in zip(parts, placement.positions, strict=True):
        for name, counts in part.updates.items():
            put_rows(updates[name], where, counts)
    return merged_dense(parts)._replace(weights=weights, updates=updates, offered=offered)


def merged_dense(parts: Sequence[Pulled]) -> Pulled:
    """Return the dense parameters, and the moments, of all shards."""
    dense = {name: values for part in parts for name, values in part.dense.items()}
    updates = {name: count for part in parts for name, count in part.dense_updates.items()}
    return Pulled({}, {}, dense, parts[0].moments, {}, updates)


def joined(parts: Sequence[Mapping[str, Floats]], placement: Placement, size: int) -> dict[str, Floats]:
    """Return float32[size, dim] by table of the parts of all shards, zeros after the last key."""
    whole = {name: empty((size, values.shape[1]), np.float32) for name, values in parts[0].items()}
    for part, where in zip(parts, placement.positions, strict=True):
        for name, values in part.items():
            put_rows(whole[name], where, values)
    for rows in whole.values():
        rows[sum(map(len, placement.keys)) :] = 0
    return whole


def put_together(parts: Sequence[Floats], placement: Placement) -> Floats:
    """Return float32[n, width] in the order of all keys, of what each shard answers of its own."""
    whole = np.empty((len(placement.of), parts[0].shape[1]), np.float32)
    for part, where in zip(parts, placement.positions, strict=True):
        put_rows(whole, where, part)
    return whole


def dealt(sizes: Mapping[str, int], num_shards: int) -> list[tuple[str, ...]]:
    """Return the names of each shard's parameters: the largest first, each to the shard that holds the fewest floats.

    Args:
        sizes: parameter -> how many floats it has.
    """
    names: list[list[str]] = [[] for _ in range(num_shards)]
    floats = [0] * num_shards
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        shard = floats.index(min(floats))
        names[shard].append(name)
        floats[shard] += sizes[name]
    return [tuple(one) for one in names]
