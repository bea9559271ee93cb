"""Addresses and sockets: how ends find each other, and whole frames through a blocking socket.

A server listens on TCP and, on Linux, on a Unix socket of the abstract namespace, which leaves no file behind and which clients
on the same host prefer. TLS protects TCP only: what goes through a Unix socket never leaves the host.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from ._native import Frames
from .codec import Buffer, WireError
from .wire import Frame, total_bytes

BUFFERS_PER_CALL = 512
TLS_JOIN_BYTES = 1 << 16
KEEPALIVE_IDLE_SECONDS = 60
KEEPALIVE_INTERVAL_SECONDS = 10
KEEPALIVE_PROBES = 6


class Address(NamedTuple):
    """Where a server listens.

    Attributes:
        host: a name or number that clients can reach.
        port: of TCP.
        unix: the name of its Unix socket in the abstract namespace; empty where there is none.
    """

    host: str
    port: int
    unix: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def listen(host: str) -> tuple[list[socket.socket], Address]:
    """Return listening sockets on a free port of a host, and their address."""
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
    tcp = socket.create_server((host, 0), family=family, backlog=128)
    port = tcp.getsockname()[1]
    if sys.platform != "linux":
        return [tcp], Address(host, port)
    name = f"xpsql-{secrets.token_hex(16)}"
    unix = socket.socket(socket.AF_UNIX)
    unix.bind("\0" + name)
    unix.listen(128)
    return [tcp, unix], Address(host, port, name)


def connect(address: Address, seconds: float, context: ssl.SSLContext | None) -> socket.socket:
    """Return a socket to a server: its Unix socket if this is its host, else TCP, with TLS if a context is given.

    Raises:
        OSError: nobody listens there, or not within `seconds`.
    """
    if address.unix and sys.platform == "linux":
        unix = socket.socket(socket.AF_UNIX)
        unix.settimeout(seconds)
        try:
            unix.connect("\0" + address.unix)
            return unix
        except OSError:
            unix.close()  # another host
    tcp = socket.create_connection((address.host, address.port), seconds)
    tune(tcp)
    return context.wrap_socket(tcp) if context else tcp


def tune(tcp: socket.socket) -> None:
    """Send frames at once, and notice a host that is gone."""
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            tcp.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Plain:
    """A blocking socket whose waits the kernel bounds, so that a short frame is one read and one write."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        sock.settimeout(None)

    def bound(self, seconds: float) -> None:
        """Let no read or write wait longer."""
        bound = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)

    def read(self, memory: memoryview, whole: bool) -> int:
        """Put what comes next into memory and return how many bytes did; 0 at the end of the stream.

        Args:
            memory: not empty.
            whole: wait until it is full, unless that takes too long.

        Raises:
            BlockingIOError: nothing came in time.
        """
        return self._socket.recv_into(memory, 0, socket.MSG_WAITALL if whole else 0)

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Send buffers and return how many bytes went.

        Raises:
            BlockingIOError: nothing went in time.
        """
        return self._socket.sendmsg(buffers)


class Encrypted:
    """A blocking socket with TLS; methods as of Plain."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock

    def bound(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def read(self, memory: memoryview, whole: bool) -> int:
        try:
            return self._socket.recv_into(memory)
        except TimeoutError as error:
            raise BlockingIOError from error

    def write(self, buffers: Sequence[Buffer]) -> int:
        try:
            return self._socket.send(joined(buffers))
        except TimeoutError as error:
            raise BlockingIOError from error


class Stream:
    """Whole pieces through a blocking socket.

    Args:
        sock: connected.
        seconds: how long a piece may take from its first byte to its last.
    """

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._ends: Plain | Encrypted = Encrypted(sock) if isinstance(sock, ssl.SSLSocket) else Plain(sock)
        self.bound(seconds)

    def bound(self, seconds: float) -> None:
        """Set how long a piece may take from now on."""
        self._seconds = seconds
        self._ends.bound(seconds)

    def receive(self, size: int) -> bytes:
        """Return the next bytes; see fill."""
        data = bytearray(size)
        self.fill(memoryview(data))
        return bytes(data)

    def await_frame(self, frames: Frames) -> Frame | None:
        """Return the next frame, however long its first byte takes; None if the other end has closed instead.

        Raises:
            WireError: it is none within the limits, ends before its end, or takes too long.
            OSError: the connection is lost.
        """
        frame: Frame | None = frames.take(0)
        deadline = None
        while frame is None:
            if deadline is None and not frames.is_between:
                deadline = time.monotonic() + self._seconds
            try:
                count = self._ends.read(frames.room(), frames.is_long)
            except BlockingIOError:
                count = -1
            if count == 0:
                if frames.is_between:
                    return None
                raise WireError("the other end closed within a frame")
            if deadline is not None and time.monotonic() >= deadline:
                raise WireError(f"a frame was not complete within {self._seconds:g} s")
            frame = frames.take(max(count, 0))
        return frame

    def fill(self, memory: memoryview) -> None:
        """Fill memory with the next bytes.

        Raises:
            WireError: they end before, or take too long.
            OSError: the connection is lost.
        """
        size, deadline = len(memory), time.monotonic() + self._seconds
        while memory:
            try:
                count = self._ends.read(memory, True)
            except BlockingIOError:
                count = -1
            if count == len(memory):
                return
            if count == 0:
                raise WireError(f"the other end closed after {size - len(memory)} of {size} bytes")
            memory = memory[max(count, 0) :]
            if time.monotonic() >= deadline:
                raise WireError(f"only {size - len(memory)} of {size} bytes came within {self._seconds:g} s")

    def send(self, data: bytes) -> None:
        """Send bytes; see send_all."""
        self.send_all([data])

    def send_all(self, buffers: list[Buffer]) -> None:
        """Send buffers.

        Raises:
            WireError: the other end does not take them in time.
            OSError: the connection is lost.
        """
        deadline = time.monotonic() + self._seconds
        while buffers:
            try:
                count = self._ends.write(buffers[:BUFFERS_PER_CALL])
            except BlockingIOError:
                count = 0
            buffers = rest(buffers, count)
            if buffers and time.monotonic() >= deadline:
                raise WireError(f"the other end has not taken {total_bytes(buffers)} bytes within {self._seconds:g} s")


def rest(buffers: list[Buffer], count: int) -> list[Buffer]:
    """Return what is left of buffers after their first `count` bytes."""
    if count == total_bytes(buffers):
        return []
    for number, buffer in enumerate(buffers):
        if count < len(buffer):
            return [memoryview(buffer)[count:], *buffers[number + 1 :]] if count else buffers[number:]
        count -= len(buffer)
    return []


def joined(buffers: Sequence[Buffer]) -> Buffer:
    """Return the first buffer, joined with those after it while they are short: one record of TLS instead of several."""
    short: list[Buffer] = []
    total = 0
    for buffer in buffers:
        total += len(buffer)
        if total > TLS_JOIN_BYTES:
            break
        short.append(buffer)
    return b"".join(short) if short else buffers[0]
