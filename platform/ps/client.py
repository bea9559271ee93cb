"""How a worker reaches the shards: the protocol, and the client of shards in the same process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .keys import NUM_SLICES, slices
from .ladder import Ladder
from .shard import Pulled, Push, Shard
from .table import Floats, Keys

T = TypeVar("T", bound=np.generic)


class Client(Protocol):
    """Pulls and pushes the rows of one batch, whose keys are unique, and the dense parameters."""

    def pull(self, keys: Keys, size: int) -> Pulled:
        """Return the rows of keys uint64[n], padded with zeros to `size`, and all dense parameters."""
        ...

    def push(self, push: Push) -> None:
        """Apply one batch's updates on every shard and return when all have acknowledged."""
        ...


class LocalClient:
    """Direct calls to shards in this process.

    Args:
        shards: each holds an equal run of the 1024 slices.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = tuple(shards)
        self._ladder = Ladder()

    def pull(self, keys: Keys, size: int) -> Pulled:
        """See Client."""
        if len(self.shards) == 1:
            return self.shards[0].pull(keys, size)
        parts = [(where, self.shards[i].pull(keys[where], self._ladder.size(len(where)))) for i, where in self._split(keys)]
        weights = {name: merged([(where, p.weights[name]) for where, p in parts], size) for name in self.shards[0].tables}
        updates = {name: merged([(where, p.updates[name]) for where, p in parts], len(keys)) for name in self.shards[0].tables}
        return Pulled(weights, updates, {name: array for _, p in parts for name, array in p.dense.items()})

    def push(self, push: Push) -> None:
        """See Client."""
        if len(self.shards) == 1:
            self.shards[0].push(push)
            return
        for i, where in self._split(push.touched.keys):
            self.shards[i].push(part_of(push, where, self._ladder.size(len(where))))

    def _split(self, keys: Keys) -> list[tuple[int, NDArray[np.int64]]]:
        """Return, for each shard, the positions of its keys."""
        owner = shard_of(keys, len(self.shards))
        return [(i, np.flatnonzero(owner == i)) for i in range(len(self.shards))]


def shard_of(keys: Keys, num_shards: int) -> NDArray[np.int64]:
    """Return the number of the shard that holds each key: equal runs of the slices (the top 10 bits of the key)."""
    return slices(keys) * num_shards // NUM_SLICES


def slices_of(shard: int, num_shards: int) -> range:
    """Return the slices that a shard holds."""
    first, stop = (-(-number * NUM_SLICES // num_shards) for number in (shard, shard + 1))
    return range(first, stop)


def merged(parts: list[tuple[NDArray[np.int64], NDArray[T]]], size: int) -> NDArray[T]:
    first = parts[0][1]
    whole = np.zeros((size, *first.shape[1:]), first.dtype)
    for where, values in parts:
        whole[where] = values[: len(where)]
    return whole


def part_of(push: Push, where: NDArray[np.int64], size: int) -> Push:
    """Return the push restricted to the keys at `where`, its gradients and weights padded to `size`."""
    touched = push.touched
    part = touched._replace(
        keys=touched.keys[where],
        slots=touched.slots[where],
        counts=touched.counts[where],
        clicks=touched.clicks[where],
    )
    updates = {name: u[where] for name, u in push.updates.items()}
    return Push(part, updates, padded(push.gradients, where, size), padded(push.weights, where, size), push.dense)


def padded(by_table: Mapping[str, Floats], where: NDArray[np.int64], size: int) -> dict[str, Floats]:
    """Return the rows at `where` of each table's float32[n, dim], zeros after the last."""
    parts = {name: np.zeros((size, values.shape[1]), np.float32) for name, values in by_table.items()}
    for name, values in by_table.items():
        parts[name][: len(where)] = values[where]
    return parts
