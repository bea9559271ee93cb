"""Connections of HTTP/1.1: httptools parses, `handle` answers, and what a client may take of time and memory is bounded."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

import httptools

from ..stacks import roomy
from .framing import check_framing, framed_alike, has_body
from .http import Response, Service
from .refusal import RequestError

HEADER_SECONDS, BODY_SECONDS, ANSWER_SECONDS, CLOSE_SECONDS = 65, 30, 30, 5
"""In which a request's headers have to come, from when the one before was answered; its body; in which a client has to take its
answer, and has to close a connection that it was told is closed. Many proxies keep a connection that says nothing for 60
seconds, and expect the service to keep it longer."""
HEADER_BYTES = 1 << 16
"""That headers may have, and what frames a chunked body beside the sizes of its chunks: extensions and trailers. Of more than
twice as many they are refused for sure, for they are parsed in pieces of so many."""
READ_BYTES = 1 << 18
"""Read from a connection at once."""
BODIES_BYTES = 1 << 29
"""Of all bodies that are on their way."""
AT_ONCE_BYTES = 1 << 18
"""A longer body is answered by another thread than that which receives requests, so that others need not wait for it."""
PHRASES = {status.value: status.phrase for status in HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Asked(NamedTuple):
    """A request that has come, or why it is refused.

    Attributes:
        keeps: the connection is kept after it.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    keeps: bool
    refusal: RequestError | None = None


class Connections:
    """The connections of a service, and what they hold together.

    Args:
        threads: that answer; with 1 the thread that receives requests answers those that are not long.
        most: how many may be open.
    """

    def __init__(self, service: Service, threads: int, most: int) -> None:
        self.service, self.most, self.open = service, most, set[HttpConnection]()
        self.pool, self.at_once = ThreadPoolExecutor(threads, "xpsql serve"), AT_ONCE_BYTES if threads == 1 else 0
        self.handle = roomy(service.handle)
        self.held, self.stopping, self.buffer = 0, False, memoryview(bytearray(READ_BYTES))
        self.look()

    def hold(self, size: int) -> None:
        """Count bytes of bodies.

        Raises:
            RequestError: they are too many.
        """
        self.held += size
        if self.held > BODIES_BYTES:
            raise RequestError(503, "The service receives as many bytes at once as it may. Try again later.")

    def look(self) -> None:
        """End what takes too long, and read the clock for answers; one timer for all costs a request less than its own."""
        self.date, now = formatdate(usegmt=True), time.monotonic()
        for connection in [one for one in self.open if one.ends_at() < now]:
            connection.end_late()

    def stop(self) -> None:
        """Close what waits for a request; others are closed when theirs are answered."""
        self.stopping = True
        for connection in list(self.open):
            connection.end_idle()


class HttpConnection(asyncio.BufferedProtocol):
    """One connection: requests are answered one after the other, in their order."""

    _transport: asyncio.Transport

    def __init__(self, all_of_them: Connections) -> None:
        self._all, self._parser = all_of_them, httptools.HttpRequestParser(self)
        self._url, self._headers, self._body = b"", dict[str, str](), bytearray()
        self._method = self._path = ""
        self._head = self._size = self._chunk = 0
        self._framed_alike = b""
        self._asked, self._since = deque[Asked](), time.monotonic()
        self._receives_body = self._answers = self._blocked = self._deaf = self._ended = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._all.open.add(self)
        if len(self._all.open) > self._all.most:
            self._refuse(RequestError(503, "The service has as many connections as it may. Try again later."))
            self._answer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = self._ended = True
        self._all.open.discard(self)
        self._all.held -= self._size + sum(len(request.body) for request in self._asked)
        self._size = 0
        self._asked.clear()
        del self._parser  # which refers to this

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._all.buffer  # which is parsed before another connection gets it

    def buffer_updated(self, nbytes: int) -> None:
        if self._deaf:
            return
        try:
            for at in range(0, nbytes, HEADER_BYTES):
                self._parse(self._all.buffer[at : min(at + HEADER_BYTES, nbytes)])
        except RequestError as error:
            self._refuse(error)
        except httptools.HttpParserError as error:
            reason = error.__context__ or error  # what a method below raised, or the parser
            if isinstance(reason, httptools.HttpParserError):
                reason = RequestError(400, f"This is not HTTP/1.1: {reason}.")
            if not isinstance(reason, RequestError):
                raise
            self._refuse(reason)
        self._answer()

    def pause_writing(self) -> None:
        self._blocked, self._since = True, time.monotonic()

    def resume_writing(self) -> None:
        self._blocked, self._since = False, time.monotonic()
        self._answer()

    # What the parser calls.

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._receives_body:  # else it is a trailer
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            before = self._headers.get(key)
            self._headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        if self._framed_alike:  # whose own head was checked
            self._framed_alike = b""
            return
        headers, parser, service = self._headers, self._parser, self._all.service
        self._method = parser.get_method().decode("latin-1")
        check_framing(parser.get_http_version(), self._method, headers)
        url = self._url if self._url.startswith(b"/") else httptools.parse_url(self._url).path or b""
        self._path = url.partition(b"?")[0].decode("latin-1")
        service.admit(self._path, headers)
        if (length := headers.get("content-length")) is not None:
            service.limits.check_body(int(length))
        if "upgrade" in headers and parser.should_upgrade() and has_body(headers):
            self._framed_alike = framed_alike(parser.should_keep_alive(), headers)
        self._head, self._receives_body, self._since = 0, True, time.monotonic()
        if headers.get("expect", "").lower() == "100-continue" and not (self._asked or self._answers):
            self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        self._head -= len(body)
        self._all.hold(len(body))
        self._all.service.limits.check_body(self._size)
        self._body += body  # not a list of pieces, of which a chunk of one byte would be one

    def on_chunk_complete(self) -> None:
        self._head -= len(f"{self._size - self._chunk:x}") + 2 * len("\r\n")  # the least that frames it
        self._chunk = self._size

    def on_message_complete(self) -> None:
        if self._framed_alike:  # the parser ends here, but the request has a body
            return
        keeps = self._parser.should_keep_alive()
        self._asked.append(Asked(self._method, self._path, self._headers, bytes(self._body), keeps))
        self._url, self._headers, self._body = b"", {}, bytearray()
        self._size, self._head, self._chunk, self._receives_body = 0, 0, 0, False

    # Time, and the end.

    def ends_at(self) -> float:
        """Return when the connection is ended if nothing happens until then."""
        if self._answers:
            return math.inf
        if self._ended:
            return self._since + CLOSE_SECONDS
        if self._blocked:
            return self._since + ANSWER_SECONDS
        return self._since + (BODY_SECONDS if self._receives_body else HEADER_SECONDS)

    def end_late(self) -> None:
        """End the connection, whose time is over."""
        if self._receives_body and not (self._ended or self._blocked):
            self._refuse(RequestError(408, f"The body of the request was not complete after {BODY_SECONDS} s."))
            self._answer()
        else:
            self._transport.abort()

    def end_idle(self) -> None:
        """End the connection where it has no request whose headers are there."""
        if not (self._asked or self._answers or self._receives_body):
            self._transport.close()

    def _parse(self, data: memoryview) -> None:
        self._head += len(data)
        while data:
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as wish:  # for another protocol, which a server may pass over
                self._parser, data = httptools.HttpRequestParser(self), data[wish.args[0] :]
                if self._framed_alike:
                    self._parser.feed_data(self._framed_alike)
        if self._head > HEADER_BYTES:
            if self._receives_body:
                raise RequestError(400, f"Extensions and trailers of chunks may have {HEADER_BYTES:,} bytes.")
            raise RequestError(431, f"The headers of a request may have {HEADER_BYTES:,} bytes.")

    def _refuse(self, error: RequestError) -> None:
        """Answer with an error after what was asked before, and read no further: where the next request begins is not known."""
        self._all.held -= self._size
        self._size, self._receives_body, self._deaf, self._body = 0, False, True, bytearray()
        self._asked.append(Asked("", "", {}, b"", keeps=False, refusal=error))

    def _answer(self) -> None:
        """Answer the next request, unless one is being answered or the client does not take its answers."""
        if self._asked and not (self._answers or self._blocked or self._ended):
            request = self._asked.popleft()
            if request.refusal is not None:
                self._give(request, self._all.service.refuse(request.refusal))
            elif len(request.body) <= self._all.at_once:
                self._give(request, self._all.service.handle(*request[:4]))
            else:
                self._answers = True
                future = asyncio.get_running_loop().run_in_executor(self._all.pool, self._all.handle, *request[:4])
                future.add_done_callback(lambda done: self._given(request, done.result()))
            if self._asked and not self._answers:
                asyncio.get_running_loop().call_soon(self._answer)  # after other connections
        if self._asked or self._answers:
            self._transport.pause_reading()

    def _given(self, request: Asked, response: Response) -> None:
        self._answers = False
        self._give(request, response)
        self._answer()

    def _give(self, request: Asked, response: Response) -> None:
        self._all.held -= len(request.body)
        if self._transport.is_closing():
            return
        keeps, self._since = request.keeps and not self._all.stopping, time.monotonic()
        lines = [f"HTTP/1.1 {response.status} {PHRASES[response.status]}", f"date: {self._all.date}"]
        lines += [f"{name}: {value}" for name, value in response.headers.items()]
        lines += [f"content-length: {len(response.body)}", f"connection: {'keep-alive' if keeps else 'close'}", "\r\n"]
        self._transport.write("\r\n".join(lines).encode("latin-1") + (b"" if request.method == "HEAD" else response.body))
        if keeps:
            if not self._asked:
                self._transport.resume_reading()
        elif request.refusal is None:
            self._transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        """Let the client read why it is refused before the connection is closed: bytes that nobody reads would reset it."""
        self._ended = True
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
