"""A small server for tests, and a client that may misbehave."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpsql.platform.errors import DataError
from xpsql.platform.ps.transport.codec import WireError
from xpsql.platform.ps.transport.connection import Connection
from xpsql.platform.ps.transport.handshake import introduce
from xpsql.platform.ps.transport.server import Server
from xpsql.platform.ps.transport.sockets import Address, SocketStream, connect, seen_by_client
from xpsql.platform.ps.transport.tls import Certificate
from xpsql.platform.ps.transport.wire import Acknowledged, ConnectionLimits, Handler, Method

SECRET = b"a secret of 32 bytes for testing"
HOST = "127.0.0.1"


class Values(NamedTuple):
    values: NDArray[np.float32]
    note: str = ""


class Wait(NamedTuple):
    number: int = 0


ECHO = Method("echo", Values, Values)
FAIL = Method("fail", Values, Acknowledged)
BREAK = Method("break", Wait, Acknowledged)
HOLD = Method("hold", Wait, Acknowledged)


class Service:
    """Answers ECHO, FAIL (with a DataError), BREAK (with a bug) and HOLD (when released)."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.held = threading.Semaphore(0)
        self.release = threading.Event()

    def handlers(self) -> list[Handler[Values, Values] | Handler[Values, Acknowledged] | Handler[Wait, Acknowledged]]:
        return [Handler(ECHO, lambda r: r), Handler(FAIL, self.fail), Handler(BREAK, self.stumble), Handler(HOLD, self.hold)]

    def connect(
        self,
        address: Address,
        secret: bytes = SECRET,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008
        public: str | None = None,
    ) -> Connection:
        """Return a connection that ends with the service."""
        self.connections.append(Connection("the tester", address, secret, limits, public))
        return self.connections[-1]

    def fail(self, request: Values) -> Acknowledged:
        raise DataError(f"{request.note}: {len(request.values)} values")

    def stumble(self, request: Wait) -> Acknowledged:
        raise ZeroDivisionError(f"number {request.number}")

    def hold(self, _: Wait) -> Acknowledged:
        self.held.release()
        self.release.wait(60)
        return Acknowledged()


@contextmanager
def serving(
    limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008
    certificate: Certificate | None = None,
) -> Iterator[tuple[Server, Service]]:
    service = Service()
    with Server("the tester", service.handlers(), SECRET, HOST, limits, certificate) as server:
        try:
            yield server, service
        finally:
            service.release.set()
            for connection in service.connections:
                connection.close()


@contextmanager
def raw(address: Address, greet: bool = True) -> Iterator[SocketStream]:
    """A connection that sends whatever the test wants, after authentication if asked to."""
    with connect(address, 10, None) as sock:
        stream = SocketStream(sock, 10)
        if greet:
            introduce(stream, SECRET, seen_by_client(sock))
        yield stream


def until_closed(stream: SocketStream) -> bytes:
    """Return what the other end still says before it closes."""
    said = bytearray()
    with contextlib.suppress(OSError, WireError):
        while True:
            said += stream.receive(1)
    return bytes(said)


def values(n: int, note: str = "") -> Values:
    return Values(np.arange(n, dtype=np.float32), note)


def tcp(address: Address) -> Address:
    return address._replace(unix="")
