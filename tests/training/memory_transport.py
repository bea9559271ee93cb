"""A transport without sockets: messages are packed as they would travel, and answered by a call in the same process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from xpsql.platform.errors import LostError, XpsqlError
from xpsql.platform.ps.client import Handle, ReadyAnswer, Sharded
from xpsql.platform.ps.messages import Description, Keys, Pulled, Push
from xpsql.platform.ps.service import DESCRIBE, LEAVE, PULL, PULL_DENSE, PUSH, DensePull, DescriptionRequest, Pull, WorkerLeave
from xpsql.platform.ps.transport.base import ServerTrust
from xpsql.platform.ps.transport.codec import Codec
from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.ps.transport.tls import Certificate
from xpsql.platform.ps.transport.wire import ConnectionLimits, Handler, Method, error_of, failure_of

A = TypeVar("A")
Q = TypeVar("Q")


class MemoryTransport:
    """A network of one process.

    Attributes:
        calls: the names of all calls that were made, with the server's name.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self._servers: dict[Address, MemoryServer] = {}
        self._ports = itertools.count(1)

    def dial(self, peer: str, address: Address, trust: ServerTrust) -> MemoryLink:
        server = self._servers.get(address)
        if server is None or server.secret != trust.secret:
            raise LostError(f"Cannot connect to {peer}: nobody is at {address}.")
        return MemoryLink(self, server, peer)

    def dial_shards(self, addresses: Sequence[Address], trust: ServerTrust, seconds: float) -> MemoryClient:
        return MemoryClient([self.dial(f"shard {n}", address, trust) for n, address in enumerate(addresses)], seconds)

    def serve(
        self,
        name: str,
        handlers: Sequence[Handler[Any, Any]],
        secret: bytes,
        host: str,
        limits: ConnectionLimits,
        certificate: Certificate | None,
    ) -> MemoryServer:
        server = MemoryServer(self._servers, Address(host, next(self._ports)), name, handlers, secret)
        self._servers[server.address] = server
        return server


class MemoryServer:
    """What answers; a context manager."""

    def __init__(
        self,
        servers: dict[Address, MemoryServer],
        address: Address,
        name: str,
        handlers: Sequence[Handler[Any, Any]],
        secret: bytes,
    ) -> None:
        self.address, self.name, self.secret = address, name, secret
        self.handlers = {handler.call.name: handler for handler in handlers}
        self.serving = threading.local()
        self._servers = servers

    def when_closed(self, closed: Callable[[], None]) -> None:
        self.serving.link.closed.append(closed)

    def close(self) -> None:
        self._servers.pop(self.address, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class MemoryLink:
    """A link to one server."""

    def __init__(self, network: MemoryTransport, server: MemoryServer, peer: str) -> None:
        self._network, self._server, self._peer = network, server, peer
        self.closed: list[Callable[[], None]] = []

    def call(self, call: Method[Q, A], request: Q, seconds: float) -> A:
        server = self._server
        self._network.calls.append((server.name, call.name))
        server.serving.link = self
        try:
            answer = server.handlers[call.name].answer(travelled(call.request, request))
        except XpsqlError as error:
            raise error_of(failure_of(error, server.name)) from None
        return travelled(call.answer, answer)

    def close(self) -> None:
        while self.closed:
            self.closed.pop()()


def travelled(codec: Codec[Q], message: Q) -> Q:
    """Return a message as it arrives."""
    contents, count, body = codec.encode(message)
    rest = b"".join((contents, *(bytes(piece) for piece in body)))
    return codec.decode(np.frombuffer(rest, np.uint8), count)


class MemoryPort:
    """A shard behind a link."""

    def __init__(self, link: MemoryLink, seconds: float) -> None:
        self.link, self._seconds = link, seconds

    def start_pull(self, keys: Keys, size: int, padded: bool, dense: bool) -> Handle[Pulled]:
        return ReadyAnswer(self.link.call(PULL, Pull(keys, size, padded), self._seconds))

    def start_pull_dense(self) -> Handle[Pulled]:
        return ReadyAnswer(self.link.call(PULL_DENSE, DensePull(0), self._seconds))

    def start_push(self, push: Push) -> Handle[object]:
        return ReadyAnswer(self.link.call(PUSH, push, self._seconds))

    def start_leave(self, worker: int) -> Handle[object]:
        return ReadyAnswer(self.link.call(LEAVE, WorkerLeave(worker), self._seconds))


class MemoryClient(Sharded):
    """A client of shards."""

    def __init__(self, links: Sequence[MemoryLink], seconds: float) -> None:
        super().__init__([MemoryPort(link, seconds) for link in links])
        self._links, self._seconds = links, seconds

    def describe(self) -> list[Description]:
        return self.each(DESCRIBE, DescriptionRequest(), self._seconds)

    def each(self, call: Method[Q, A], request: Q, seconds: float) -> list[A]:
        return [link.call(call, request, seconds) for link in self._links]

    def each_until(self, call: Method[Q, A], request: Q, given_up: threading.Event) -> list[A]:
        return self.each(call, request, self._seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for link in self._links:
            link.close()
