"""The server in front of `handle`: asyncio accepts connections, of which each is a HttpConnection."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import StatementError
from ..system import needing
from .http import Service

if TYPE_CHECKING:
    from .connection import Connections

BACKLOG = 1024
CONNECTIONS = 8192
HANDSHAKE_SECONDS = 10
"""In which a client has to say by which keys TLS goes on; it is no connection of ours before."""
LOOK_SECONDS = 1.0
STOP_SECONDS = 0.02


class Listening(NamedTuple):
    """Where and how the service listens.

    Attributes:
        threads: that answer; see Connections.
        tls: None without.
    """

    host: str
    port: int
    threads: int
    tls: ssl.SSLContext | None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"


def tls_of(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return what TLS needs of a certificate and its key, PEM files; None without.

    Raises:
        StatementError: they cannot be used.
    """
    if certificate is None or key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        message = f"The certificate {certificate} and the key {key} cannot be used: {error}."
        raise StatementError(f"{message} Give a certificate and its private key as PEM files.") from error
    return context


def require_httptools() -> None:
    """Refuse to serve where httptools is missing.

    Raises:
        StatementError: it is.
    """
    try:
        import httptools  # noqa: F401
    except ImportError as error:
        raise StatementError(needing("xpsql serve needs the package httptools", "serve")) from error


async def try_address(listening: Listening) -> None:
    """Take the address for a moment, before models are loaded.

    Raises:
        StatementError: it cannot be had.
    """
    loop = asyncio.get_running_loop()
    with explaining(listening):
        server = await loop.create_server(asyncio.Protocol, listening.host, listening.port, start_serving=False)
    server.close()


@contextmanager
def explaining(listening: Listening) -> Iterator[None]:
    """Say which address cannot be had, and why."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        message = f"The service cannot listen at {listening.address}: {why}. Give another --port or --host."
        raise StatementError(message) from error


def serve(service: Service, listening: Listening, ready: Callable[[], None]) -> None:
    """Answer requests until the process is asked to stop (SIGTERM, SIGINT); running requests are answered.

    Args:
        ready: called when the service accepts requests.

    Raises:
        StatementError: it cannot listen there.
    """
    allow_connections()
    asyncio.run(answer(service, listening, ready))


async def answer(service: Service, listening: Listening, ready: Callable[[], None]) -> None:
    from .connection import CLOSE_SECONDS, Connections, HttpConnection

    loop, connections = asyncio.get_running_loop(), Connections(service, listening.threads, CONNECTIONS)
    with explaining(listening):
        server = await loop.create_server(
            lambda: HttpConnection(connections),
            listening.host,
            listening.port,
            backlog=BACKLOG,
            ssl=listening.tls,
            ssl_handshake_timeout=None if listening.tls is None else HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=None if listening.tls is None else CLOSE_SECONDS,
        )
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # a shell starts what it runs in the background deaf to Ctrl-C
            loop.add_signal_handler(number, stopping.set)
    watch = loop.create_task(look(connections))
    ready()
    await stopping.wait()
    server.close()
    connections.stop()
    while connections.open:
        await asyncio.sleep(STOP_SECONDS)
    watch.cancel()
    connections.pool.shutdown()


async def look(connections: Connections) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        connections.look()


def allow_connections() -> None:
    """Let this process open what so many connections need, or as much as it may: many shells begin one with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
