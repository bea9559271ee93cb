"""The transport protocol of a job (RPC): sockets (over_sockets.py), or a network that a test simulates.

The driver chooses one where it makes a cluster; it travels to the tasks with the job's contact, and nothing else makes a
connection or a server for a job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

from .sockets import Address
from .tls import Certificate
from .wire import ConnectionLimits, Handler, Method

if TYPE_CHECKING:  # they need JAX, the coordinator does not
    from ..client import Handle, NetworkShards
    from ..keyed import KeyedRequest
    from ..messages import Description, Floats, Keys, Pulled, Push

A = TypeVar("A")
Q = TypeVar("Q")


class ServerTrust(NamedTuple):
    """What a client knows of the servers of its job.

    Attributes:
        secret: of the job.
        public: the servers' certificate as PEM; None without TLS.
    """

    secret: bytes
    public: str | None


class CallLink(Protocol):
    """A connection to one server; not thread-safe."""

    def call(self, call: Method[Q, A], request: Q, seconds: float) -> A:
        """Make a call and return its answer.

        Raises:
            LostError: the server is lost, or does not answer within `seconds`; names it.
            XpsqlError: the server's own error.
        """
        ...

    def close(self) -> None:
        """Close it."""
        ...


class ShardsClient(Protocol):
    """A client of all shards of a job (see Client), which can make any call of them, too; a context manager."""

    def pull(self, keys: Keys, size: int) -> Pulled:
        """See Client."""
        ...

    def push(self, push: Push) -> None:
        """See Client."""
        ...

    def start_pull(self, keys: Keys, size: int, dense: bool = True) -> Handle[Pulled]:
        """See Client."""
        ...

    def start_pull_dense(self) -> Handle[Pulled]:
        """See Client."""
        ...

    def start_push(self, push: Push) -> Handle[object]:
        """See Client."""
        ...

    def fold_rows(self, request: KeyedRequest) -> Floats:
        """See Client."""
        ...

    def leave(self, worker: int) -> None:
        """See Client."""
        ...

    def describe(self) -> list[Description]:
        """Return what each shard holds."""
        ...

    def each(self, call: Method[Q, A], request: Q, seconds: float) -> list[A]:
        """Make a call of all shards at once, and return their answers in order.

        Raises:
            LostError: a shard is lost, or does not answer within `seconds`; names it.
        """
        ...

    def spread(self, call: Method[Q, A], requests: Sequence[Q], seconds: float) -> list[A]:
        """Make a call of all shards at once, with a request for each; see each."""
        ...

    def run_networks(self, sizes: dict[str, int], counts: Mapping[str, int]) -> NetworkShards:
        """Ask shards for what networks make of vectors from now on; see NetworkShards."""
        ...

    def each_until(self, call: Method[Q, A], request: Q, given_up: threading.Event) -> list[A]:
        """Make a call of all shards at once, and return their answers in order, however long they take.

        Raises:
            LostError: a shard is lost, or the wait was cancelled; names the shard.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class CallServer(Protocol):
    """An RPC server that answers calls until it is closed; a context manager.

    Attributes:
        address: where clients reach it.
    """

    address: Address

    def when_closed(self, closed: Callable[[], None]) -> None:
        """Call a function once the link is closed whose request is being answered now, unless this server closes it."""
        ...

    def close(self) -> None:
        """Answer no more."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Transport(Protocol):
    """Makes both ends; travels by pickle."""

    def dial(self, peer: str, address: Address, trust: ServerTrust) -> CallLink:
        """Return a link to one server.

        Args:
            peer: the server, for messages, such as "the coordinator of ctr v3".

        Raises:
            LostError: nothing listens there, or something else does.
        """
        ...

    def dial_shards(self, addresses: Sequence[Address], trust: ServerTrust, seconds: float) -> ShardsClient:
        """Return a client of the shards, in order.

        Args:
            seconds: how long an answer may take.

        Raises:
            TrainingError: a shard cannot be reached; names it.
        """
        ...

    def reaches(self, address: Address) -> bool:
        """Return whether anything listens at an address, as far as this machine's network lets it know; asks more than once."""
        ...

    def serve(
        self,
        name: str,
        handlers: Sequence[Handler[Any, Any]],
        secret: bytes,
        host: str,
        limits: ConnectionLimits,
        certificate: Certificate | None,
    ) -> CallServer:
        """Answer calls from now on; see Server for the arguments."""
        ...
