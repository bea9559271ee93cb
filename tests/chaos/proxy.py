"""A TCP proxy that cuts and delays."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from types import TracebackType
from typing import Self

from xpsql.platform.ps.sockets import Address

PIECE = 1 << 14


class Proxy:
    """Stands before a server; a context manager.

    Args:
        target: the server's address.
        delay_seconds: the longest time that a piece of a message is held back.
        seed: of the delays and sizes of pieces.
    """

    def __init__(self, target: Address, delay_seconds: float = 0.0, seed: int = 0) -> None:
        self._target = target
        self._delay_seconds = delay_seconds
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.cuts = 0
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def cut(self) -> None:
        """Cut every connection that there is; new ones may come."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.cuts += len(sockets) // 2

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
            with self._lock:
                self._sockets |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(source, sink), name="proxy copy", daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(self._random.randint(1, PIECE)):
                if self._delay_seconds:
                    self._closed.wait(self._random.random() * self._delay_seconds)
                sink.sendall(piece)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed.set()
        self._listener.close()
        self.cut()
