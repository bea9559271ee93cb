"""The calls of a shard, and how it answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .gang import Gang
from .messages import Description, Keys, Pulled, Push
from .shard import Shard
from .shard_checks import PushChecks, check_pull
from .transport.wire import Acknowledged, Handler, Method
from .watermarks import RunRecord


class Pull(NamedTuple):
    """A request for rows.

    Attributes:
        keys: uint64[n], unique.
        size: rows of weights and of what operators offer to compute, from n to what a ladder pads n keys to.
        padded: whether the answer has all `size` rows; else the first n.
        known: the version of the dense parameters that need not be sent: who asks has it. 0: none; ROWS_ALONE: none need be.
    """

    keys: Keys
    size: int
    padded: bool
    known: int = 0


class DensePull(NamedTuple):
    """A request for the dense parameters alone; `known` as of Pull."""

    known: int


class DescriptionRequest(NamedTuple):
    """A request for what a shard holds."""


class StandingRequest(NamedTuple):
    """A request for how far a shard has come in each turn."""


class ShardStanding(NamedTuple):
    """How far a shard has come in each turn, by runs of slices."""

    entries: tuple[RunRecord, ...]


class WorkerLeave(NamedTuple):
    """A worker pushes no more."""

    worker: int


ROWS_ALONE = -1
PULL = Method("pull", Pull, Pulled)
PULL_DENSE = Method("pull dense", DensePull, Pulled)
PUSH = Method("push", Push, Acknowledged)
LEAVE = Method("leave", WorkerLeave, Acknowledged)
DESCRIBE = Method("describe", DescriptionRequest, Description)
WATERMARKS = Method("watermarks", StandingRequest, ShardStanding)


def pull_handler(source: Callable[[Keys, int], Pulled]) -> Handler[Pull, Pulled]:
    """Return how what holds rows answers pulls: with what `source` returns of keys, padded to a size."""

    def pull(request: Pull) -> Pulled:
        check_pull(request.keys, request.size)
        pulled, n = source(request.keys, request.size), len(request.keys)
        pulled = unknown(pulled, request.known)
        if request.padded:
            return pulled
        weights = {name: rows[:n] for name, rows in pulled.weights.items()}
        offered = {name: rows[:n] for name, rows in pulled.offered.items()}
        return pulled._replace(weights=weights, offered=offered)

    return Handler(PULL, pull)


def unknown(pulled: Pulled, known: int) -> Pulled:
    """Return what was pulled without dense parameters that need not be sent."""
    return pulled._replace(dense={}, dense_updates={}) if known in (ROWS_ALONE, pulled.dense_version) else pulled


def shard_handlers(shard: Shard | Gang, applied: Callable[[], None] | None = None) -> tuple[Handler[Any, Any], ...]:
    """Return how a shard answers its calls.

    Args:
        applied: called after each push, before it is acknowledged.
    """

    checks = PushChecks(shard.shard if isinstance(shard, Gang) else shard)

    def push(request: Push) -> Acknowledged:
        checks.check(request)
        shard.push(request)
        if applied is not None:
            applied()
        return Acknowledged()

    def leave(request: WorkerLeave) -> Acknowledged:
        shard.leave(request.worker)
        return Acknowledged()

    def describe(_: DescriptionRequest) -> Description:
        return shard.describe()

    def progress(_: StandingRequest) -> ShardStanding:
        return ShardStanding(shard.progress())

    dense = Handler(PULL_DENSE, lambda request: unknown(shard.pull_dense(), request.known))
    own = Handler(PUSH, push), Handler(LEAVE, leave), Handler(DESCRIBE, describe), Handler(WATERMARKS, progress)
    return pull_handler(shard.pull), dense, *own
