"""The client's end of connections to servers.

Requests may be sent ahead; answers come in order. While a client waits for one answer it moves the bytes of all its connections
both ways, so that neither a slow server nor two large messages that cross can block it.
"""

from __future__ import annotations

import operator
import select
import socket
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from ...errors import LostError, TrainingError, XpsqlError
from .._native import Frame, Outgoing
from .codec import WireError
from .handshake import introduce
from .sockets import Address, SocketStream, connect, pipe, seen_by_client
from .tls import client_context
from .wire import FAILURE, ConnectionLimits, Method, Status, error_of, message

ALONE_SECONDS = 0.2
OUTGOING = operator.attrgetter("outgoing")

Q = TypeVar("Q")
A = TypeVar("A")


class PendingAnswer(Generic[A]):
    """An answer on its way, made by Connection.start.

    Attributes:
        over: whether the answer is there, or will never be.
    """

    def __init__(self, connection: Connection, call: Method[Any, A], number: int) -> None:
        self.call = call
        self.number = number
        self.connection = connection
        self.over = False
        self._answer: A | None = None
        self._error: XpsqlError | None = None

    def fulfil(self, answer: A) -> None:
        """Set what the server answered."""
        self._answer, self.over = answer, True

    def fail(self, error: XpsqlError) -> None:
        """Set why there is no answer."""
        self._error, self.over = error, True

    def look(self) -> A | None:
        """Return the answer, None while it is pending.

        Raises:
            XpsqlError: the server's, or the connection is lost.
        """
        if self._error is not None:
            raise self._error
        return self._answer


class Connection:
    """A connection to one server. Not thread-safe: each worker has its own.

    Args:
        peer: the server, for messages, such as "shard 3 of 8".
        address: where it listens.
        secret: of the job.
        limits: what the client grants the server.
        public: the server's certificate as PEM; None without TLS.

    Attributes:
        outgoing: requests of which some has still to go.

    Raises:
        LostError: nothing listens there, or something else does.
    """

    def __init__(self, peer: str, address: Address, secret: bytes, limits: ConnectionLimits, public: str | None) -> None:
        self.peer = f"{peer} at {address}"
        self._limits = limits
        self.outgoing: deque[Outgoing] = deque()
        self._pending: deque[PendingAnswer[Any]] = deque()
        self._last = 0
        self._lost: LostError | None = None
        self._socket = self._connected(address, secret, public)
        self._pipe = pipe(self._socket, limits)
        self._alone = Exchange([self])

    def _connected(self, address: Address, secret: bytes, public: str | None) -> socket.socket:
        seconds = self._limits.handshake_seconds
        try:
            sock = connect(address, seconds, None if public is None else client_context(public))
        except (OSError, UnicodeError) as error:  # the host name may not be one that can be looked up
            raise LostError(f"Cannot connect to {self.peer}: {error}.") from error
        try:
            introduce(SocketStream(sock, seconds), secret, seen_by_client(sock))
        except (WireError, OSError) as error:
            sock.close()
            raise LostError(f"Cannot connect to {self.peer}: {error}.") from error
        return sock

    @property
    def is_busy(self) -> bool:
        """Whether an answer is on its way."""
        return bool(self._pending)

    @property
    def wanted(self) -> int:
        """What poll should wait for."""
        return select.POLLIN | select.POLLOUT if self.outgoing else select.POLLIN

    def fileno(self) -> int:
        """Return the socket's number, for poll."""
        return self._socket.fileno()

    def start(self, call: Method[Q, A], request: Q) -> PendingAnswer[A]:
        """Send a request; its arrays must not change before the answer is there.

        Raises:
            LostError: the connection is lost.
            TrainingError: the request is larger than the limits allow.
        """
        if self._lost is not None:
            raise self._lost
        self._last += 1
        frame = call.request.frame(call.request_head, self._last, request)
        if frame.left > self._limits.frame_bytes:
            raise TrainingError(
                f"A {call.name} to {self.peer} takes {frame.left} bytes, the limit is {self._limits.frame_bytes}; "
                "use smaller batches."
            )
        pending: PendingAnswer[A] = PendingAnswer(self, call, self._last)
        self._pending.append(pending)
        self.outgoing.append(frame)
        self.advance(select.POLLOUT, 0)
        return pending

    def call(self, call: Method[Q, A], request: Q, seconds: float) -> A:
        """Send a request and return its answer; see start and Exchange.result."""
        return self._alone.result(self.start(call, request), seconds)

    def advance(self, events: int, seconds: float) -> None:
        """Move what can be moved; if the connection is lost, so is every answer on its way.

        Args:
            events: what is expected of it, as poll gives them.
            seconds: how long to wait for the first answer.
        """
        try:
            if events & select.POLLOUT:
                self._write()
            if events & ~select.POLLOUT:
                self._read(seconds)
        except (WireError, OSError) as error:
            self._lose(error)

    def _write(self) -> None:
        """Send what the socket takes."""
        outgoing, end = self.outgoing, self._pipe
        while outgoing and end.send(outgoing[0], 0):
            outgoing.popleft()

    def _read(self, seconds: float) -> None:
        """Receive what has come, until all answers are there or no more has."""
        end = self._pipe
        while (frame := end.receive(seconds)) is not None:
            self._receive(frame)
            if not self._pending:
                return
            seconds = 0
        if end.is_over:
            raise WireError("it closed the connection")

    def _receive(self, frame: Frame) -> None:
        """Give an answer to the request that awaits it."""
        error = error_of(message(frame, FAILURE)) if frame.status == Status.FAILURE else None
        if error is not None and frame.request == 0:
            raise WireError(f"it refused: {error}")
        if not self._pending or frame.request != self._pending[0].number:
            awaited = self._pending[0].number if self._pending else "none"
            raise WireError(f"expected the answer to request {awaited}, got that to {frame.request}")
        pending = self._pending.popleft()
        if error is None:
            pending.fulfil(message(frame, pending.call.answer))
        else:
            pending.fail(error)

    def _lose(self, error: Exception) -> None:
        during = self._pending[0].call.name if self._pending else "nothing"
        lost = LostError(f"Lost {self.peer} during {during}: {error}.")
        lost.__cause__ = error
        self._end(lost)

    def _end(self, lost: LostError) -> None:
        self._lost = lost
        self._socket.close()
        self.outgoing.clear()
        while self._pending:
            self._pending.popleft().fail(lost)

    def close(self) -> None:
        """Close it; answers on their way are lost."""
        if self._lost is None:
            self._end(LostError(f"The connection to {self.peer} is closed."))


class Exchange:
    """Waits for answers on several connections at once.

    Args:
        connections: one per server.
    """

    def __init__(self, connections: Iterable[Connection]) -> None:
        self._connections = tuple(connections)

    def result(self, pending: PendingAnswer[A], seconds: float) -> A:
        """Return an answer when it is there.

        Raises:
            LostError: it does not come within `seconds`, or the server is lost; names the server.
            XpsqlError: the server's own error.
        """
        if not self.ready(pending, seconds):
            raise LostError(f"No answer to {pending.call.name} from {pending.connection.peer} within {seconds:g} s.")
        answer = pending.look()
        assert answer is not None  # ready
        return answer

    def ready(self, pending: PendingAnswer[Any], seconds: float) -> bool:
        """Wait until an answer is there, or will never be, for at most `seconds`; return whether it is."""
        if pending.over:
            return True
        start = time.monotonic()
        while not pending.over and (left := start + seconds - time.monotonic()) > 0:
            if seconds - left < ALONE_SECONDS and not any(map(OUTGOING, self._connections)):
                pending.connection.advance(select.POLLIN, min(left, ALONE_SECONDS))  # others' answers wait in their sockets
            else:
                self._move(left)
        return pending.over

    def _move(self, seconds: float) -> None:
        """Move bytes of all connections whose answers are on their way; wait until some can be."""
        busy = [connection for connection in self._connections if connection.is_busy]
        if len(busy) == 1 and busy[0].wanted == select.POLLIN:
            busy[0].advance(select.POLLIN, seconds)
            return
        poll = select.poll()
        by_number = {connection.fileno(): connection for connection in busy}
        for number, connection in by_number.items():
            poll.register(number, connection.wanted)
        for number, events in poll.poll(seconds * 1000):
            by_number[number].advance(events, 0)
