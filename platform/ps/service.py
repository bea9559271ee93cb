"""The calls of a shard, and how it answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..functions import READINGS
from .gang import Gang, own_shard
from .keyed import Find, ShardReadings
from .messages import Description, Keys, Pulled, Push
from .networks.network_messages import (
    NetworkGradient,
    OutputsAsked,
    OutputsMade,
    ParametersAsked,
    ParametersMade,
)
from .shard import Shard
from .shard_checks import PushChecks, check_asked, check_pull
from .transport.wire import Acknowledged, Handler, Method
from .watermarks import RunRecord


class Pull(NamedTuple):
    """A request for rows.

    Attributes:
        keys: uint64[n], unique.
        size: rows of weights and of what operators offer to compute, from n to what a ladder pads n keys to.
        padded: whether the answer has all `size` rows; else the first n.
        known: the version of the dense parameters that need not be sent: who asks has it. 0: none; ROWS_ALONE: none need be.
        spared: whether to leave out the parameters of networks that shards run.
    """

    keys: Keys
    size: int
    padded: bool
    known: int = 0
    spared: bool = False


class DensePull(NamedTuple):
    """A request for the dense parameters alone; see Pull."""

    known: int
    spared: bool = False


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


Names = frozenset[str]

ROWS_ALONE = -1
PULL = Method("pull", Pull, Pulled)
PULL_DENSE = Method("pull dense", DensePull, Pulled)
PUSH = Method("push", Push, Acknowledged)
LEAVE = Method("leave", WorkerLeave, Acknowledged)
DESCRIBE = Method("describe", DescriptionRequest, Description)
OUTPUTS = Method("outputs", OutputsAsked, OutputsMade)
PARAMETERS = Method("parameters", ParametersAsked, ParametersMade)
NETWORK_STEP = Method("network step", NetworkGradient, Acknowledged)
WATERMARKS = Method("watermarks", StandingRequest, ShardStanding)


def pull_handler(source: Callable[[Keys, int], Pulled], own: Names = frozenset()) -> Handler[Pull, Pulled]:
    """Return how what holds rows answers pulls: with what `source` returns of keys, padded to a size.

    Args:
        own: the parameters of networks that shards run.
    """

    def pull(request: Pull) -> Pulled:
        check_pull(request.keys, request.size)
        pulled, n = source(request.keys, request.size), len(request.keys)
        pulled = unknown(pulled, request.known, own if request.spared else frozenset())
        if request.padded:
            return pulled
        weights = {name: rows[:n] for name, rows in pulled.weights.items()}
        offered = {name: rows[:n] for name, rows in pulled.offered.items()}
        return pulled._replace(weights=weights, offered=offered)

    return Handler(PULL, pull)


def unknown(pulled: Pulled, known: int, own: Names) -> Pulled:
    """Return what was pulled without dense parameters that need not be sent, those of `own` among them."""
    if known in (ROWS_ALONE, pulled.dense_version):
        return pulled._replace(dense={}, dense_updates={})
    if not own:
        return pulled
    dense = {name: values for name, values in pulled.dense.items() if name not in own}
    return pulled._replace(dense=dense, dense_updates={n: count for n, count in pulled.dense_updates.items() if n not in own})


def shard_handlers(
    shard: Shard | Gang, applied: Callable[[], None] | None = None, find: Find = READINGS.find
) -> tuple[Handler[Any, Any], ...]:
    """Return how a shard answers its calls.

    Args:
        applied: called after each push, before it is acknowledged.
        find: returns the readings that there are, by name.
    """

    networks = shard.networks if isinstance(shard, Gang) else None
    checks = PushChecks(own_shard(shard), networks)
    spared: Names = frozenset() if networks is None else networks.names

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

    dense = Handler(
        PULL_DENSE, lambda request: unknown(shard.pull_dense(), request.known, spared if request.spared else frozenset())
    )
    own = Handler(PUSH, push), Handler(LEAVE, leave), Handler(DESCRIBE, describe), Handler(WATERMARKS, progress)
    keyed = ShardReadings(own_shard(shard), find).handler()
    return pull_handler(shard.pull, spared), dense, *own, keyed, *(network_handlers(shard) if isinstance(shard, Gang) else ())


def network_handlers(gang: Gang) -> tuple[Handler[Any, Any], ...]:
    """Return how a shard answers workers and other shards about the networks that it runs; nothing where it runs none."""
    networks = gang.networks
    if networks is None:
        return ()

    def outputs(asked: OutputsAsked) -> OutputsMade:
        check_asked(asked, networks.networks)
        return gang.outputs(asked)

    def take(gradient: NetworkGradient) -> Acknowledged:
        networks.steps.take(gradient)
        return Acknowledged()

    def parameters(asked: ParametersAsked) -> ParametersMade:
        return ParametersMade(networks.steps.values(asked.after))

    return Handler(OUTPUTS, outputs), Handler(NETWORK_STEP, take), Handler(PARAMETERS, parameters)
