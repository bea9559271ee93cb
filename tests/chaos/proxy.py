"""A TCP proxy that cuts, delays, and lets requests arrive in another order than they were sent.

Within one connection TCP keeps the order; between connections nothing does. Each piece of each connection has a delay of its
own, and what clients send can be held back, even until they have lost their connection and sent the same on another one.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from xpsql.platform.ps.transport.sockets import Address

PIECE = 1 << 14
OVER_SECONDS = 30.0


class Pipe:
    """A connection through the proxy.

    Args:
        pause: holds a piece up.
        piece: returns how many bytes to take at most.
    """

    def __init__(
        self, client: socket.socket, server: socket.socket, pause: Callable[[], None], piece: Callable[[], int]
    ) -> None:
        self._client, self._server = client, server
        self._pause, self._piece = pause, piece
        self._lock = threading.Lock()  # of what goes to the server, in order
        self._held: list[bytes] | None = None
        self._since: bytes | None = None
        self._ended = False
        self.up_bytes = self.down_bytes = 0
        self.over = threading.Event()
        for copy in (self._up, self._down):
            threading.Thread(target=copy, name="proxy copy", daemon=True).start()

    @property
    def held(self) -> bytes:
        """What the client has sent and the server has not got."""
        with self._lock:
            return b"".join(self._held or ())

    def hold(self, since: bytes) -> None:
        """Hold back what the client sends from the next piece on that has these bytes."""
        with self._lock:
            self._since = since

    def deliver(self) -> bytes:
        """Send on what was held back; return it. Of a client that is cut, wait until the server has answered all of it."""
        with self._lock:
            late, self._held, self._since = b"".join(self._held or ()), None, None
            with contextlib.suppress(OSError):
                self._server.sendall(late)
                if self._ended:
                    self._server.shutdown(socket.SHUT_WR)
            ended = self._ended
        if ended:
            assert self.over.wait(OVER_SECONDS)
        return late

    def cut(self) -> None:
        """Cut the client off; the server learns it when it has got all that the client sent."""
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut both ends off."""
        for one in (self._client, self._server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _up(self) -> None:
        """Copy from the client to the server."""
        with contextlib.suppress(OSError):
            while piece := self._client.recv(self._piece()):
                self.up_bytes += len(piece)
                self._pause()
                with self._lock:
                    if self._held is None and self._since is not None and self._since in piece:
                        self._held = []
                    if self._held is None:
                        self._server.sendall(piece)
                    else:
                        self._held.append(piece)
        with self._lock:
            self._ended = True
            if self._held is None:
                with contextlib.suppress(OSError):
                    self._server.shutdown(socket.SHUT_WR)

    def _down(self) -> None:
        """Copy from the server to the client; answers to one that is cut off are dropped."""
        with contextlib.suppress(OSError):
            while piece := self._server.recv(self._piece()):
                self.down_bytes += len(piece)
                self._pause()
                with contextlib.suppress(OSError):
                    self._client.sendall(piece)
        self.close()
        self.over.set()


class Proxy:
    """Stands before a server; a context manager.

    Args:
        target: the server's address.
        delay_seconds: the longest time that a piece of a message is held up.
        seed: of the delays and sizes of pieces.
    """

    def __init__(self, target: Address, delay_seconds: float = 0.0, seed: int = 0) -> None:
        self._target = target
        self._delay_seconds = delay_seconds
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._pipes: list[Pipe] = []
        self._dead: list[Pipe] = []
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def cuts(self) -> int:
        """How many connections were cut."""
        return len(self._dead)

    @property
    def carried(self) -> int:
        """How many bytes came, from both ends."""
        with self._lock:
            return sum(pipe.up_bytes + pipe.down_bytes for pipe in (*self._dead, *self._pipes))

    @property
    def held(self) -> bytes:
        """What is held back."""
        with self._lock:
            pipes = [*self._dead, *self._pipes]
        return b"".join(pipe.held for pipe in pipes)

    def hold(self, since: bytes = b"") -> None:
        """Hold back what each client that there is sends, from the next piece on that has some bytes."""
        with self._lock:
            for pipe in self._pipes:
                pipe.hold(since)

    def cut(self) -> None:
        """Cut every client off that there is; new ones may come. What they sent and is held back stays so."""
        with self._lock:
            cut, self._pipes = self._pipes, []
            self._dead += cut
        for pipe in cut:
            pipe.cut()

    def deliver(self) -> bytes:
        """Send on what is held back, of dead connections too; return it."""
        with self._lock:
            pipes = [*self._dead, *self._pipes]
        return b"".join(pipe.deliver() for pipe in pipes)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((self._target.host, self._target.port), 10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if not self._closed.is_set():
                    self._pipes.append(Pipe(client, server, self._pause, lambda: self._random.randint(1, PIECE)))
                    continue
            client.close()  # who connected as this closed
            server.close()

    def _pause(self) -> None:
        if self._delay_seconds:
            self._closed.wait(self._random.random() * self._delay_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.close()
        with self._lock:
            self._closed.set()
            pipes = [*self._dead, *self._pipes]
        for pipe in pipes:
            pipe.close()
