"""The calls of a shard, and how it answers them."""

from __future__ import annotations

from typing import Any, NamedTuple

from .shard import Pulled, Push, Shard
from .table import Keys
from .wire import Acknowledged, Call, Handler


class Pull(NamedTuple):
    """A request for rows.

    Attributes:
        keys: uint64[n], unique.
        size: rows of the weights to compute, at least n.
        padded: whether the answer has all `size` rows; else the first n.
    """

    keys: Keys
    size: int
    padded: bool


class Describe(NamedTuple):
    """A request for what a shard holds."""


class Description(NamedTuple):
    """What a shard holds.

    Attributes:
        rows: of its largest table.
        memory_bytes: of all tables.
        now: the newest TIME pushed, seconds.
        reports: what its operators counted, such as violations.
    """

    rows: int
    memory_bytes: int
    now: int
    reports: dict[str, float]


PULL = Call("pull", Pull, Pulled)
PUSH = Call("push", Push, Acknowledged)
DESCRIBE = Call("describe", Describe, Description)


def shard_handlers(shard: Shard) -> tuple[Handler[Any, Any], ...]:
    """Return how a shard answers its calls."""

    def pull(request: Pull) -> Pulled:
        pulled, n = shard.pull(request.keys, request.size), len(request.keys)
        return pulled if request.padded else pulled._replace(weights={name: w[:n] for name, w in pulled.weights.items()})

    def push(request: Push) -> Acknowledged:
        shard.push(request)
        return Acknowledged()

    def describe(_: Describe) -> Description:
        return Description(len(shard), shard.memory_bytes, shard.now, dict(shard.reports))

    return Handler(PULL, pull), Handler(PUSH, push), Handler(DESCRIBE, describe)
