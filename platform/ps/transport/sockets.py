"""Addresses and sockets: how ends find each other, and whole frames through a socket.

A server listens on TCP and, on Linux and without TLS, on a Unix socket of the abstract namespace, which leaves no file behind,
however the server ends, and which clients on the same host prefer. Others may listen under its name, once the server is gone or
in a container: clients check that a process of their own user does, and the handshake is bound to the name. With TLS all goes
through TCP.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import ssl
import struct
import sys
import time
from typing import NamedTuple, Protocol

from .._native import Channel, Frame, Frames, Outgoing
from .codec import WireError
from .wire import ConnectionLimits, frames

BLOCKED = (BlockingIOError, TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
TLS_BYTES = 1 << 16
BACKLOG = 4096  # all tasks of a job may come at once; the kernel takes net.core.somaxconn at most
UNIX_BUFFER_BYTES = 1 << 19
KEEPALIVE_IDLE_SECONDS = 60
KEEPALIVE_INTERVAL_SECONDS = 10
KEEPALIVE_PROBES = 6
TRIES = 3
TRY_SECONDS = 2.0
CREDENTIALS = struct.Struct("=iII")  # of a peer: process, user, group


class Address(NamedTuple):
    """Where a server listens.

    Attributes:
        host: a name or number that clients can reach.
        port: of TCP.
        unix: the name of its Unix socket in the abstract namespace; empty where there is none, as with TLS.
    """

    host: str
    port: int
    unix: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def listen(host: str, encrypted: bool) -> tuple[list[socket.socket], Address]:
    """Return listening sockets on a free port of a host, and their address.

    Args:
        encrypted: by TLS, so there is no Unix socket.
    """
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
    tcp = socket.create_server((host, 0), family=family, backlog=BACKLOG)
    port = tcp.getsockname()[1]
    if encrypted or sys.platform != "linux":
        return [tcp], Address(host, port)
    name = f"xpsql-{secrets.token_hex(16)}"
    unix = socket.socket(socket.AF_UNIX)
    unix.bind("\0" + name)
    unix.listen(BACKLOG)
    return [tcp, unix], Address(host, port, name)


def connect(address: Address, seconds: float, context: ssl.SSLContext | None) -> socket.socket:
    """Return a socket to a server: with a context TCP and TLS; else its Unix socket if this is its host and user, or TCP.

    Raises:
        OSError: nobody listens there, or not within `seconds`.
    """
    if context is None and address.unix and sys.platform == "linux":
        unix = socket.socket(socket.AF_UNIX)
        unix.settimeout(seconds)
        try:
            unix.connect("\0" + address.unix)
            if is_own(unix):
                tune(unix)
                return unix
        except OSError:
            pass  # another host
        unix.close()
    tcp = socket.create_connection((address.host, address.port), seconds)
    tune(tcp)
    return context.wrap_socket(tcp) if context else tcp


def reaches(address: Address) -> bool:
    """Return whether anything listens at an address: a kernel answers for a busy process, too."""
    for tried in range(TRIES):
        time.sleep(tried and TRY_SECONDS)
        try:
            connect(address, TRY_SECONDS, None).close()
        except (OSError, UnicodeError):
            continue
        return True
    return False


def is_own(unix: socket.socket) -> bool:
    """Return whether a process of this user is at the other end, or began to listen there."""
    _, user, _ = CREDENTIALS.unpack(unix.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return bool(user == os.geteuid())


def seen_by_client(sock: socket.socket) -> bytes:
    """Return what a client sees of its connection, for the handshake."""
    if isinstance(sock, ssl.SSLSocket):
        return of_certificate(sock.getpeercert(binary_form=True) or b"")
    return b"unix" + sock.getpeername() if sock.family == socket.AF_UNIX else b"tcp"


def seen_by_server(sock: socket.socket, public: str | None) -> bytes:
    """Return the same of a server's end.

    Args:
        public: the certificate that it shows, as PEM; None without TLS.
    """
    if public is not None:
        return of_certificate(ssl.PEM_cert_to_DER_cert(public))
    return b"unix" + sock.getsockname() if sock.family == socket.AF_UNIX else b"tcp"


def of_certificate(shown: bytes) -> bytes:
    return b"tls" + hashlib.sha256(shown).digest()


def tune(sock: socket.socket) -> None:
    """Let frames go at once; notice a host that is gone, and on this host hand long frames over in few pieces."""
    if sock.family == socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_BUFFER_BYTES)
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class SocketStream:
    """The bytes of a handshake through a socket; what it sends fits into the socket's buffer.

    Args:
        sock: connected.
        seconds: how long a piece may take.
    """

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._socket = sock
        self._seconds = seconds

    def receive(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            WireError: they end before, or take too long.
            OSError: the connection is lost.
        """
        data, deadline = bytearray(), time.monotonic() + self._seconds
        while len(data) < size:
            some = self._some(size - len(data), deadline - time.monotonic())
            if some is None:
                raise WireError(f"only {len(data)} of {size} bytes came within {self._seconds:g} s")
            if not some:
                raise WireError(f"the other end closed after {len(data)} of {size} bytes")
            data += some
        return bytes(data)

    def _some(self, most: int, seconds: float) -> bytes | None:
        """Return what comes next, nothing at the end of the stream; None if it does not come in time."""
        if seconds <= 0:
            return None
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(most)
        except TimeoutError:
            return None

    def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            OSError: the connection is lost, or the other end does not take them in time.
        """
        self._socket.settimeout(self._seconds)
        self._socket.sendall(data)


class Pipe(Protocol):
    """Frames through a connection; every call returns in time, which is at once where `seconds` is 0."""

    @property
    def is_between(self) -> bool:
        """Whether the last frame is complete and no byte of another one is there."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the other end has closed."""
        ...

    def send(self, frame: Outgoing, seconds: float) -> bool:
        """Send what the other end takes of a frame; return whether all of it has gone.

        Raises:
            OSError: the connection is lost.
        """
        ...

    def receive(self, seconds: float) -> Frame | None:
        """Return the next frame; None while it is not complete.

        Raises:
            WireError: it is not a frame within the limits.
            OSError: the connection is lost.
        """
        ...


def pipe(sock: socket.socket, limits: ConnectionLimits) -> Pipe:
    """Return the way of frames through a socket after the handshake."""
    if isinstance(sock, ssl.SSLSocket):
        return Encrypted(sock, frames(limits))
    sock.settimeout(None)
    return Channel(sock.fileno(), frames(limits))


class Encrypted:
    """Frames through a socket with TLS; see Pipe."""

    def __init__(self, sock: ssl.SSLSocket, incoming: Frames) -> None:
        self._socket = sock
        self._incoming = incoming
        self.is_over = False

    @property
    def is_between(self) -> bool:
        return self._incoming.is_between

    def send(self, frame: Outgoing, seconds: float) -> bool:
        self._bound(seconds)
        try:
            while some := frame.next(TLS_BYTES):
                frame.gone(self._socket.send(some))
        except BLOCKED:
            return False
        return True

    def receive(self, seconds: float) -> Frame | None:
        frame = self._incoming.take(0)
        if frame is not None:
            return frame
        self._bound(seconds)
        try:
            frame = self._take()
            while frame is None and self._socket.pending():  # decrypted already, which poll does not see
                frame = self._take()
        except BLOCKED:
            return None
        return frame

    def _take(self) -> Frame | None:
        """Read once."""
        count = self._socket.recv_into(self._incoming.room())
        self.is_over = count == 0
        return self._incoming.take(count)

    def _bound(self, seconds: float) -> None:
        if self._socket.gettimeout() != seconds:
            self._socket.settimeout(seconds)


def await_frame(end: Pipe, seconds: float) -> Frame | None:
    """Return the next frame, however long its first byte takes; None if the other end has closed instead.

    Args:
        seconds: from its first to its last byte.

    Raises:
        WireError: it is not a frame within the limits, ends before its end, or takes too long.
        OSError: the connection is lost.
    """
    deadline = None
    while (frame := end.receive(seconds)) is None:
        if end.is_over and end.is_between:
            return None
        if end.is_over:
            raise WireError("the other end closed within a frame")
        if deadline is None and not end.is_between:
            deadline = time.monotonic() + seconds
        elif deadline is not None and time.monotonic() >= deadline:
            raise WireError(f"a frame was not complete within {seconds:g} s")
    return frame


def send_whole(end: Pipe, frame: Outgoing, seconds: float) -> None:
    """Send a frame.

    Raises:
        WireError: the other end does not take it in time.
        OSError: the connection is lost.
    """
    deadline = time.monotonic() + seconds
    while not end.send(frame, seconds):
        if time.monotonic() >= deadline:
            raise WireError(f"the other end has not taken {frame.left} bytes within {seconds:g} s")
