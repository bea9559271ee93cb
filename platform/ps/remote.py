"""The client of shards behind servers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from ..errors import LostError
from .client import Handle, Sharded
from .keyed import FOLD_ROWS, KeyedAnswer, KeyedRequest
from .messages import NO_MOMENTS, Arrays, Description, Keys, Pulled, Push
from .networks.network_messages import NetworkGradient, OutputsAsked, OutputsMade, ParametersAsked
from .networks.network_shards import NetworkShards
from .networks.runs import part_of
from .service import (
    DESCRIBE,
    LEAVE,
    NETWORK_STEP,
    OUTPUTS,
    PARAMETERS,
    PULL,
    PULL_DENSE,
    PUSH,
    ROWS_ALONE,
    DensePull,
    DescriptionRequest,
    Pull,
    WorkerLeave,
)
from .transport.base import ShardsClient
from .transport.connection import Connection, Exchange, PendingAnswer
from .transport.connection_limits import make_room
from .transport.sockets import Address
from .transport.wire import ConnectionLimits, Method

DEADLINE_SECONDS = 300.0
LOOK_SECONDS = 0.5

A = TypeVar("A")
Q = TypeVar("Q")


class Awaited(NamedTuple, Generic[A]):
    """A pending answer (a future)."""

    exchange: Exchange
    pending: PendingAnswer[A]
    seconds: float

    def result(self) -> A:
        """See Handle."""
        return self.exchange.result(self.pending, self.seconds)


class KnownDense:
    """The dense parameters of a shard as they were pulled last."""

    def __init__(self) -> None:
        self._last = Pulled({}, {}, {}, NO_MOMENTS, {}, dense_version=0)

    @property
    def version(self) -> int:
        return self._last.dense_version

    def completed(self, pulled: Pulled) -> Pulled:
        """Return an answer with the dense parameters, which it lacks where they equal the last answer's."""
        if pulled.dense_version == self.version:
            return pulled._replace(dense=self._last.dense, dense_updates=self._last.dense_updates)
        self._last = Pulled({}, {}, pulled.dense, NO_MOMENTS, {}, pulled.dense_updates, pulled.dense_version)
        return pulled


class Completed(NamedTuple):
    """A pull on its way, whose answer lacks dense parameters that are known."""

    answer: Handle[Pulled]
    known: KnownDense

    def result(self) -> Pulled:
        """See Handle."""
        return self.known.completed(self.answer.result())


class RemotePort:
    """A shard behind a server.

    Attributes:
        spared: pulls go without the parameters of networks that shards run.
    """

    def __init__(self, connection: Connection, exchange: Exchange, seconds: float) -> None:
        self.connection, self.exchange, self.seconds = connection, exchange, seconds
        self._known = KnownDense()
        self.spared = False

    def start_pull(self, keys: Keys, size: int, padded: bool, dense: bool) -> Handle[Pulled]:
        """See Port."""
        request = Pull(keys, size, padded, self._known.version if dense else ROWS_ALONE, self.spared)
        pulled = Awaited(self.exchange, self.connection.start(PULL, request), self.seconds)
        return Completed(pulled, self._known) if dense else pulled

    def start_pull_dense(self) -> Handle[Pulled]:
        """See Port."""
        request = DensePull(self._known.version, self.spared)
        pulled = Awaited(self.exchange, self.connection.start(PULL_DENSE, request), self.seconds)
        return Completed(pulled, self._known)

    def start_push(self, push: Push) -> Handle[object]:
        """See Port."""
        return Awaited(self.exchange, self.connection.start(PUSH, push), self.seconds)

    def start_fold_rows(self, request: KeyedRequest) -> Handle[KeyedAnswer]:
        """See Port."""
        return Awaited(self.exchange, self.connection.start(FOLD_ROWS, request), self.seconds)

    def start_outputs(self, asked: OutputsAsked) -> Handle[OutputsMade]:
        """See OutputsPort."""
        return Awaited(self.exchange, self.connection.start(OUTPUTS, asked), self.seconds)

    def start_leave(self, worker: int) -> Handle[object]:
        """See Port."""
        return Awaited(self.exchange, self.connection.start(LEAVE, WorkerLeave(worker)), self.seconds)


class RemoteClient(Sharded):
    """Requests to shards behind servers, on one connection to each; a context manager.

    Args:
        addresses: of the shards in order.
        secret: of the job.
        deadline_seconds: how long an answer may take.
        limits: what is granted to each server.
        public: the servers' certificate as PEM; None without TLS.

    Raises:
        TrainingError: a shard cannot be reached; names it. Or this process may not have so many connections.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        secret: bytes,
        deadline_seconds: float = DEADLINE_SECONDS,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008, it is immutable
        public: str | None = None,
    ) -> None:
        self._seconds = deadline_seconds
        self._connections: list[Connection] = []
        make_room(len(addresses))
        try:
            for number, address in enumerate(addresses):
                peer = f"shard {number} of {len(addresses)}"
                self._connections.append(Connection(peer, address, secret, limits, public))
        except BaseException:
            self.close()
            raise
        self._exchange = Exchange(self._connections)
        self._remote = [RemotePort(connection, self._exchange, deadline_seconds) for connection in self._connections]
        super().__init__(self._remote)

    def run_networks(self, sizes: dict[str, int], counts: Mapping[str, int]) -> NetworkShards:
        """Ask shards for what networks make of vectors from now on; see NetworkShards."""
        for port in self._remote:
            port.spared = True
        self.networks = NetworkShards(self._remote, sizes, counts)
        return self.networks

    def describe(self) -> list[Description]:
        """Return what each shard holds."""
        return self.each(DESCRIBE, DescriptionRequest(), self._seconds)

    def each(self, call: Method[Q, A], request: Q, seconds: float) -> list[A]:
        """Make a call of all shards at once, and return their answers in order.

        Raises:
            LostError: a shard is lost, or does not answer within `seconds`; names it.
        """
        return self.spread(call, [request] * len(self._connections), seconds)

    def spread(self, call: Method[Q, A], requests: Sequence[Q], seconds: float) -> list[A]:
        """Make a call of all shards at once, with a request for each; see each."""
        pending = [one.start(call, request) for one, request in zip(self._connections, requests, strict=True)]
        return [self._exchange.result(one, seconds) for one in pending]

    def each_until(self, call: Method[Q, A], request: Q, given_up: threading.Event) -> list[A]:
        """Make a call of all shards at once, and return their answers in order, however long they take.

        Raises:
            LostError: a shard is lost, or the wait was cancelled; names the shard.
        """
        pending = [connection.start(call, request) for connection in self._connections]
        for one in pending:
            while not self._exchange.ready(one, LOOK_SECONDS):
                if given_up.is_set():
                    raise LostError(f"The {call.name} of {one.connection.peer} was given up.")
        return [self._exchange.result(one, LOOK_SECONDS) for one in pending]

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class RemotePeers:
    """Shards behind servers.

    Args:
        client: of all of them.
        names: for each shard, the pieces that it holds.
        seconds: how long an answer may take.
    """

    def __init__(self, client: ShardsClient, names: Sequence[Sequence[str]], seconds: float) -> None:
        self._client, self._names, self._seconds = client, names, seconds

    def parameters(self, after: int) -> Arrays:
        """See NetworkPeers."""
        found = self._client.each(PARAMETERS, ParametersAsked(after), self._seconds)
        return {name: values for one in found for name, values in one.values.items()}

    def send(self, gradient: NetworkGradient) -> None:
        """See NetworkPeers."""
        self._client.spread(NETWORK_STEP, [part_of(gradient, names) for names in self._names], self._seconds)

    def close(self) -> None:
        """See NetworkPeers."""
        self._client.__exit__(None, None, None)
