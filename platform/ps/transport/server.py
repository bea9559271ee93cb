"""An RPC server of typed calls: shards serve workers, the coordinator serves tasks.

A thread serves each connection: it reads a request, answers it and reads the next, so requests of one connection may be sent
ahead and are answered in order. A peer from outside the job, or one that sends no valid request, is logged and its connection
closed; other peers are not affected.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from ...errors import XpsqlError
from ...stacks import roomy
from .._native import Frame, Outgoing
from .codec import WireError
from .handshake import welcome
from .sockets import Pipe, SocketStream, await_frame, listen, pipe, seen_by_server, send_whole, tune
from .tls import Certificate, server_context
from .unauthenticated import Strangers
from .wire import FAILURE, ConnectionLimits, Failure, Handler, Status, failure_of, message, pack

ACCEPT_PAUSE_SECONDS = 0.1
FINISH_SECONDS = 0.5
CLOSE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Server:
    """Answers calls until it is closed; a context manager.

    Args:
        name: for messages and threads, such as "shard 3".
        handlers: of the calls that it answers.
        secret: of the job; clients must know it.
        host: where it listens, and the address that clients get; other hosts reach it only under a name that they can resolve.
        limits: what it grants its clients.
        certificate: for TLS; None for none.
    """

    def __init__(
        self,
        name: str,
        handlers: Sequence[Handler[Any, Any]],
        secret: bytes,
        host: str,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008, it is immutable
        certificate: Certificate | None = None,
    ) -> None:
        self.name = name
        self._handlers = {handler.call.kind: handler for handler in handlers}
        self._secret = secret
        self._limits = limits
        self._tls = None if certificate is None else server_context(certificate)
        self._public = None if certificate is None else certificate.public
        self._listeners, self.address = listen(host, certificate is not None)
        self._strangers = Strangers(limits.strangers, limits.proof_seconds, self._put_out, self._tell_refused)
        self._wake, self._woken = socket.socketpair()
        self._closing = threading.Event()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._known: set[threading.Thread] = set()  # of connections that have proved themselves
        self._when_closed: dict[threading.Thread, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(target=self._accept, name=f"xpsql {name}", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def num_connections(self) -> int:
        """Connections at this moment, including those still in their handshake."""
        with self._lock:
            return len(self._connections)

    def when_closed(self, closed: Callable[[], None]) -> None:
        """Call a function once the connection is closed whose request is being answered now, unless this server closes it."""
        self._when_closed[threading.current_thread()] = closed

    def close(self) -> None:
        """Stop within about a second: calls that are being answered finish if they take less than half of it."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._wake.send(b"\0")
        self._acceptor.join()
        for sock in (self._wake, self._woken):  # here, as the acceptor may end before it is woken
            sock.close()
        self._shut(socket.SHUT_RD, FINISH_SECONDS)
        self._shut(socket.SHUT_RDWR, CLOSE_SECONDS - FINISH_SECONDS)
        if left := self.num_connections:
            logger.warning("%s: %d calls are still being answered; their clients have been cut off", self.name, left)

    def _shut(self, how: int, seconds: float) -> None:
        """Shut all connections one way or both, and wait for their threads."""
        with self._lock:
            connections = dict(self._connections)
        for sock in connections.values():
            with contextlib.suppress(OSError):  # the other end was faster
                socket.socket.shutdown(sock, how)
        deadline = time.monotonic() + seconds
        for thread in connections:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        """Accept connections until the server closes."""
        with selectors.DefaultSelector() as selector:
            for listener in (*self._listeners, self._woken):
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ)
            while not self._closing.is_set():
                for key, _ in selector.select(self._strangers.look()):
                    if key.fileobj in self._listeners:
                        self._strangers.make_room()
                        self._take(key.fileobj)
        for listener in self._listeners:
            listener.close()

    def _take(self, listener: socket.socket) -> None:
        """Start a thread for a new connection."""
        try:
            sock, peer = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            logger.error("%s: cannot accept a connection: %s", self.name, error)
            self._closing.wait(ACCEPT_PAUSE_SECONDS)
            return
        who = f"{peer[0]}:{peer[1]}" if peer else "a client on this host"
        thread = threading.Thread(target=roomy(self._serve), args=(sock, who), name=f"xpsql {self.name} {who}", daemon=True)
        self._strangers.add(thread)
        with self._lock:
            self._connections[thread] = sock
        try:
            thread.start()
        except RuntimeError as error:  # the machine grants no more threads
            logger.error("%s: cannot serve %s: %s", self.name, who, error)
            self._strangers.leave(thread)
            sock.close()
            with self._lock:
                del self._connections[thread]

    def _put_out(self, thread: threading.Thread) -> None:
        with self._lock, contextlib.suppress(OSError):  # it may have gone
            if thread in self._connections:
                socket.socket.shutdown(self._connections[thread], socket.SHUT_RDWR)

    def _tell_refused(self, count: int, why: str) -> None:
        logger.warning("%s: refused %d clients; the last, %s", self.name, count, why)

    def _serve(self, sock: socket.socket, who: str) -> None:
        """Serve one connection until either end closes it; what goes wrong is logged before it is closed."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._forget)
            stack.enter_context(sock)
            try:
                if (end := self._met(sock, who, stack)) is not None:
                    self._talk(end)
            except WireError as error:
                logger.warning("%s: refused %s: %s", self.name, who, error)
            except OSError as error:
                logger.warning("%s: lost %s: %s", self.name, who, error)
        closed = self._when_closed.pop(threading.current_thread(), None)
        if closed is not None and not self._closing.is_set():
            closed()

    def _forget(self) -> None:
        with self._lock:
            del self._connections[threading.current_thread()]
            self._known.discard(threading.current_thread())

    def _met(self, sock: socket.socket, who: str, stack: contextlib.ExitStack) -> Pipe | None:
        """Authenticate a client; return its pipe of frames, None where it is refused."""
        try:
            opened = self._opened(sock, stack)
            stream = SocketStream(opened, self._limits.handshake_seconds)
            welcome(stream, self._secret, seen_by_server(opened, self._public), self._enter)
            return pipe(opened, self._limits)
        except (WireError, OSError) as error:
            if self._strangers.leave(threading.current_thread()):
                self._strangers.refuse(f"{who}: {error}")
            return None

    def _enter(self) -> bool:
        """Count this thread's connection as authenticated, if there is room."""
        thread = threading.current_thread()
        with self._lock:
            if len(self._known) >= self._limits.connections:
                return False
            self._known.add(thread)
        self._strangers.leave(thread)
        return True

    def _opened(self, sock: socket.socket, stack: contextlib.ExitStack) -> socket.socket:
        """Return the socket ready for a handshake."""
        sock.settimeout(self._limits.handshake_seconds)
        tune(sock)
        if self._tls is None:
            return sock
        try:
            encrypted = stack.enter_context(self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False))
            with self._lock:
                self._connections[threading.current_thread()] = encrypted
            if threading.current_thread() not in self._strangers:  # it was evicted in between, when there was nothing to shut
                raise WireError("it was put out")
            encrypted.do_handshake()
        except (ssl.SSLError, TimeoutError) as error:
            raise WireError(f"no TLS: {error}") from error
        return encrypted

    def _talk(self, end: Pipe) -> None:
        """Answer the requests of one client."""
        while not self._closing.is_set() and self._answer(end):
            pass

    def _answer(self, end: Pipe) -> bool:
        """Answer the next request; False if the client has closed the connection instead.

        Raises:
            WireError: the request is not one that this server knows; the client has been notified.
        """
        number, seconds = 0, self._limits.stall_seconds
        try:
            frame = await_frame(end, seconds)
            if frame is None:
                return False
            handler, number = self._handler(frame), frame.request
            request = message(frame, handler.call.request)
        except WireError as error:
            with contextlib.suppress(OSError, WireError):  # the client may have gone
                send_whole(end, pack(Status.FAILURE, b"", number, FAILURE, Failure("TrainingError", str(error))), seconds)
            raise
        send_whole(end, self._result(handler, request, number), seconds)
        return True

    def _result(self, handler: Handler[Any, Any], request: object, number: int) -> Outgoing:
        """Return the frame of what a handler answers or raises."""
        call = handler.call
        try:
            return call.answer.frame(call.answer_head, number, handler.answer(request))
        except Exception as error:
            if not isinstance(error, XpsqlError):
                logger.exception("%s: %s failed", self.name, call.name)
            return pack(Status.FAILURE, call.kind, number, FAILURE, failure_of(error, call.name))

    def _handler(self, frame: Frame) -> Handler[Any, Any]:
        """Return the handler that a request asks for.

        Raises:
            WireError: there is none, or the request is of another version.
        """
        if frame.status != Status.REQUEST:
            raise WireError(f"expected a request, got a frame that is {Status(frame.status).name}")
        handler = self._handlers.get(frame.kind)
        if handler is None:
            kind = frame.kind.rstrip(b"\0").decode("ascii", "backslashreplace")
            known = ", ".join(sorted(handler.call.name for handler in self._handlers.values()))
            raise WireError(f"{self.name} does not answer {kind!r}; it answers {known}")
        return handler
