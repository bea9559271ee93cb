"""The HTTP server in front of `handle`: granian, in this process, by its protocol RSGI."""

from __future__ import annotations

import asyncio
import resource
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import StatementError
from .http import Response, Service
from .refusal import RequestError

BACKLOG = 1024
CONNECTIONS = 8192
HEADER_SECONDS, BODY_SECONDS = 65, 30
"""In which a request's headers have to come, from when the one before was answered, and its body. Many proxies keep a
connection that says nothing for 60 seconds, and expect the service to keep it longer."""
BODIES_BYTES = 1 << 29
"""Of all bodies that are on their way."""
SMALL_BYTES = BODIES_BYTES // CONNECTIONS
"""A body that says that it is no longer is taken at once, not in pieces, each of which costs two turns of threads."""
WITHOUT_BODY = ("GET", "HEAD")
MOST_DIGITS = 16
WATCH_SECONDS = 1.0


class Listening(NamedTuple):
    """Where and how the service listens.

    Attributes:
        threads: that answer; with 1 the thread that receives requests answers them.
        certificate, key: of TLS, PEM files; None for none.
    """

    host: str
    port: int
    threads: int
    certificate: Path | None
    key: Path | None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}"


def require_granian() -> None:
    """Refuse to serve where granian is missing.

    Raises:
        StatementError: it is.
    """
    try:
        import granian  # noqa: F401
    except ImportError as error:
        raise StatementError("xpsql serve needs the package granian: pip install 'xpsql[serve]'.") from error


def serve(service: Service, listening: Listening, ready: Callable[[], None]) -> None:
    """Answer requests until the process is asked to stop (SIGTERM, SIGINT); running requests are answered.

    Args:
        ready: called when the service accepts requests.
    """
    asyncio.run(answer(service, listening, ready))


async def answer(service: Service, listening: Listening, ready: Callable[[], None]) -> None:
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.server.embed import Server

    allow_connections()
    bodies = Bodies(service)

    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(listening.threads, "xpsql serve") if listening.threads > 1 else None

    async def respond(scope: Any, protocol: Any) -> None:
        """Answer one request of RSGI."""
        if scope.proto != "http":
            protocol.close(403)
            return
        headers = dict(scope.headers.items())
        try:
            body = b"" if scope.method in WITHOUT_BODY else await bodies.received(protocol, headers)
        except RequestError as error:
            give(protocol, service.refuse(error))
            return
        arguments = scope.method, scope.path, headers, body
        response = service.handle(*arguments) if pool is None else await loop.run_in_executor(pool, service.handle, *arguments)
        give(protocol, response)

    server = Server(
        respond,
        address=listening.host,
        port=listening.port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,  # of a connection that may become HTTP/2, granian waits for the first byte without an end
        http1_settings=HTTP1Settings(header_read_timeout=1000 * HEADER_SECONDS),
        backpressure=CONNECTIONS,
        websockets=False,
        backlog=BACKLOG,
        log_enabled=False,
        ssl_cert=listening.certificate,
        ssl_key=listening.key,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    loop.call_later(0, ready)
    watch = loop.create_task(bodies.watch())
    try:
        await server.serve()
    finally:
        watch.cancel()
        if pool is not None:
            pool.shutdown()


def allow_connections() -> None:
    """Let this process open what so many connections need, or as much as it may: many shells begin one with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Bodies:
    """Receives the bodies of requests, on one thread."""

    def __init__(self, service: Service) -> None:
        self._service, self._held = service, 0
        self._began: dict[asyncio.Task[Any], float] = {}

    async def received(self, protocol: Any, headers: dict[str, str]) -> bytes:
        """Return the body of a request, which is read no further than the limits.

        Raises:
            RequestError: it is longer, takes too long, or comes while too many others do.
        """
        limits, length = self._service.limits, headers.get("content-length", "")
        promised = int(length) if length.isascii() and length.isdigit() and len(length) < MOST_DIGITS else None
        if promised is not None:
            limits.check_body(promised)
        task = asyncio.current_task()
        assert task is not None
        self._began[task] = time.monotonic()
        try:
            if promised is not None and promised <= SMALL_BYTES:
                return await self._at_once(protocol, promised)
            return await self._in_pieces(protocol)
        except asyncio.CancelledError:
            if task in self._began:
                raise
            task.uncancel()
            raise RequestError(408, f"The body of the request was not complete after {BODY_SECONDS} s.") from None
        finally:
            self._began.pop(task, None)

    async def watch(self) -> None:
        """End bodies that take too long; one timer for all costs a request less than one of its own."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self.end_late()

    def end_late(self) -> None:
        latest = time.monotonic() - BODY_SECONDS
        for task in [task for task, began in self._began.items() if began < latest]:
            del self._began[task]
            task.cancel()

    async def _at_once(self, protocol: Any, size: int) -> bytes:
        try:
            self._hold(size)
            return bytes(await protocol())
        finally:
            self._held -= size

    async def _in_pieces(self, protocol: Any) -> bytes:
        pieces, size = [], 0
        try:
            async for piece in protocol:
                size += len(piece)
                self._hold(len(piece))
                self._service.limits.check_body(size)
                pieces.append(bytes(piece))
        finally:
            self._held -= size
        return b"".join(pieces)

    def _hold(self, size: int) -> None:
        """Count bytes that are held.

        Raises:
            RequestError: they are too many.
        """
        self._held += size
        if self._held > BODIES_BYTES:
            raise RequestError(503, "The service receives as many bytes at once as it may. Try again later.")


def give(protocol: Any, response: Response) -> None:
    protocol.response_bytes(response.status, list(response.headers.items()), response.body)
