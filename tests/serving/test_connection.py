"""Connections of HTTP/1.1, on a transport that keeps what is written."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

httptools = pytest.importorskip("httptools")

from xpsql.platform.serving import connection as http  # noqa: E402
from xpsql.platform.serving.connection import Connections, HttpConnection  # noqa: E402
from xpsql.platform.serving.http import Response, refused  # noqa: E402
from xpsql.platform.serving.refusal import RequestError, RequestLimits  # noqa: E402

SECONDS = 60
GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: "
CHUNKED = b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
ASKED = {
    GET: ["GET", "/a", ""],
    b"GET http://there/a%20b?c=d HTTP/1.1\r\nHost: there\r\n\r\n": ["GET", "/a%20b", ""],
    GET.replace(b"Host", UPGRADE + b"Host"): ["GET", "/a", ""],
    POST.replace(b"Host", UPGRADE + b"Host") + b"3\r\n\r\nGET": ["POST", "/b", "GET"],
    CHUNKED.replace(b"Host", UPGRADE + b"Host") + b"3\r\nxyz\r\n0\r\n\r\n": ["POST", "/c", "xyz"],
    POST + b"3\r\nExpect: something\r\n\r\nxyz": ["POST", "/b", "xyz"],
    CHUNKED + b"3\r\nxyz\r\n2\r\nzz\r\n0\r\nAuthorization: trailer\r\n\r\n": ["POST", "/c", "xyzzz"],
    b"POST /d HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n": ["POST", "/d", ""],
}


class Echo:
    """A service that answers what it was asked; a body of `w` waits for the event `goes`."""

    limits = RequestLimits(body_bytes=10)

    def __init__(self) -> None:
        self.goes = threading.Event()

    def admit(self, path: str, headers: Mapping[str, str]) -> None:
        if headers.get("authorization", "token") != "token":
            raise RequestError(401, "no token")

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        if body == b"w":
            assert self.goes.wait(SECONDS)
        assert headers.get("authorization") != "trailer"
        return Response(200, {}, json.dumps([method, path, body.decode("latin-1")]).encode())

    def refuse(self, error: RequestError) -> Response:
        return refused(error)


class Kept(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed, self.ended, self.paused = b"", False, False, False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Answers:
    """Answers as httptools reads them."""

    def __init__(self, written: bytes) -> None:
        self.found: list[tuple[int, Any]] = []
        self._parser, self._body = httptools.HttpResponseParser(self), b""
        self._parser.feed_data(written)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.found.append((self._parser.get_status_code(), json.loads(self._body)))
        self._body = b""


def connected(all_of_them: Connections) -> tuple[HttpConnection, Kept]:
    made, transport = HttpConnection(all_of_them), Kept()
    made.connection_made(transport)
    return made, transport


def connections(most: int = 10, threads: int = 1) -> Connections:
    return Connections(Echo(), threads, most)  # type: ignore[arg-type]


def receive(one: HttpConnection, data: bytes) -> None:
    """Give a connection bytes, as asyncio does."""
    one.get_buffer(-1)[: len(data)] = data
    one.buffer_updated(len(data))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def said(*pieces: bytes) -> Kept:
    """Return what a connection wrote to some bytes, of which each piece comes when the one before is answered."""
    one, transport = connected(connections())
    for piece in pieces:
        receive(one, piece)
        await settled()
    return transport


def problem(*pieces: bytes) -> tuple[int, str]:
    """Return the status and the message with which bytes are refused; no more of them is read then."""
    transport = asyncio.run(said(*pieces, GET))
    ((status, answer),) = Answers(transport.written).found
    assert transport.ended
    assert b"\r\nconnection: close\r\n" in transport.written
    return status, answer["error"]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(list(ASKED)), max_size=5), st.data())
def test_requests_are_answered_in_their_order_however_their_bytes_come(requests: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(requests)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=6)) | {0, len(whole)})
    transport = asyncio.run(said(*(whole[at:end] for at, end in itertools.pairwise(cuts))))
    assert Answers(transport.written).found == [(200, ASKED[request]) for request in requests]
    assert not transport.closed
    assert not transport.paused


@settings(max_examples=100)
@given(st.sampled_from([b"", GET, POST, CHUNKED]), st.lists(st.binary(max_size=60), max_size=3))
def test_any_bytes_are_answered_refused_or_awaited(begin: bytes, pieces: list[bytes]) -> None:
    transport = asyncio.run(said(begin, *pieces))
    assert all(status in (200, 400, 413) for status, _ in Answers(transport.written).found)


def test_what_no_service_should_read_is_refused() -> None:
    assert problem(b"\x16\x03\x01\x02\x00")[0] == 400
    assert problem(CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n") + b"3\r\nxyz\r\n0\r\n\r\n")[0] == 400
    assert problem(GET.replace(b"/a", b"there:port"))[0] == 400
    status, message = problem(POST + b"11\r\n\r\n")
    assert (status, "may have 10 bytes and has 11" in message) == (413, True)
    assert problem(CHUNKED + b"6\r\nxyzxyz\r\n", b"6\r\nxyzxyz\r\n")[0] == 413
    assert problem(POST + b"9" * 30 + b"\r\n\r\n")[0] == 400
    assert problem(GET[:-2] + b"X: " + b"x" * 3 * http.HEADER_BYTES)[0] == 431
    assert problem(GET[:-2] + b"X: ", *[b"x" * 1000] * 66)[0] == 431


def test_what_servers_read_in_several_ways_is_refused() -> None:
    chunk = b"3\r\nxyz\r\n0\r\n\r\n"
    for request, words in {
        GET.replace(b"Host: h\r\n", b""): "this one has none",
        GET.replace(b"Host", b"Host: g\r\nHost"): "'g, h'",
        GET.replace(b"1.1", b"2.0"): "HTTP/2.0",
        GET.replace(b"1.1", b"0.9"): "HTTP/0.9",
        CHUNKED.replace(b"chunked", b"gzip, chunked") + chunk: "'gzip, chunked'",
        CHUNKED.replace(b"chunked", b"gzip\r\nTransfer-Encoding: chunked") + chunk: "'gzip, chunked'",
        CHUNKED.replace(b"1.1", b"1.0") + chunk: "HTTP/1.0",
    }.items():
        status, message = problem(request)
        assert (status, words in message) == (400, True), (request, message)
    assert problem(b"CONNECT there:1 HTTP/1.1\r\nHost: there:1\r\nContent-Length: 3\r\n\r\nxyz")[0] == 405


def test_what_frames_a_body_is_as_bounded_as_its_head() -> None:
    long = http.HEADER_BYTES // 4 * b"x"
    for begin, more in ((b"1;", long), (b"0\r\nX: ", long), (b"0\r\n", b"X: y\r\n" * 20_000), (b"", b"0" * 4 * len(long))):
        status, message = problem(CHUNKED, begin, *8 * [more])
        assert (status, "65,536 bytes" in message) == (400, True)


def test_a_request_is_refused_by_its_head_before_its_body_is_taken() -> None:
    refused_at_once = POST + b"10\r\nExpect: 100-continue\r\nAuthorization: none\r\n\r\n"
    assert problem(refused_at_once) == (401, "no token")


def test_a_head_and_what_a_client_expects_have_no_body() -> None:
    written = asyncio.run(said(GET.replace(b"GET", b"HEAD"))).written
    assert written.endswith(b"\r\n\r\n")
    assert b"\r\ncontent-length: 18\r\n" in written
    asked = asyncio.run(said(POST + b"3\r\nExpect: 100-continue\r\n\r\n", b"xyz")).written
    assert asked.startswith(http.CONTINUE + b"HTTP/1.1 200 OK\r\n")
    last = asyncio.run(said(GET.replace(b"1.1", b"1.0")))
    assert (last.closed, b"\r\nconnection: close\r\n" in last.written) == (True, True)


def test_clients_have_a_deadline_and_take_so_much_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODIES_BYTES", 15)

    async def meet() -> None:
        every = connections(most=3)
        silent, slow, long = (connected(every) for _ in range(3))
        receive(slow[0], POST + b"10\r\n\r\n123456789")
        receive(long[0], POST + b"10\r\n\r\n123456")
        receive(long[0], b"7890")
        many = connected(every)
        assert [Answers(one.written).found[0][0] for one in (long[1], many[1])] == [503, 503]
        assert every.held == 9
        every.look()
        assert not silent[1].closed
        for seconds in ("HEADER_SECONDS", "BODY_SECONDS", "CLOSE_SECONDS"):
            monkeypatch.setattr(http, seconds, -1)
        every.look()
        ((status, answer),) = Answers(slow[1].written).found
        assert (status, "was not complete" in answer["error"], every.held) == (408, True, 0)
        every.look()
        assert all(one.closed for _, one in (silent, slow, long, many))
        for one, _ in (silent, slow, long, many):
            one.connection_lost(None)
        assert not every.open

    asyncio.run(meet())


def test_a_body_in_small_chunks_takes_no_more_memory_than_another(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = 100_000
    monkeypatch.setattr(Echo, "limits", RequestLimits(body_bytes=2 * chunks))

    async def meet() -> None:
        one, transport = connected(connections())
        receive(one, CHUNKED)
        tracemalloc.start()
        try:
            for _ in range(chunks // 1000):
                receive(one, 1000 * b"2\r\nab\r\n")
            assert tracemalloc.get_traced_memory()[1] < 10 * chunks
        finally:
            tracemalloc.stop()
        receive(one, b"0\r\n\r\n")
        assert Answers(transport.written).found == [(200, ["POST", "/c", "ab" * chunks])]

    asyncio.run(meet())


def test_answers_that_a_client_does_not_take_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def meet() -> None:
        every = connections()
        one, transport = connected(every)
        one.pause_writing()
        receive(one, GET + GET)
        await settled()
        assert (transport.written, transport.paused) == (b"", True)
        one.resume_writing()
        await settled()
        assert (len(Answers(transport.written).found), transport.paused) == (2, False)
        one.pause_writing()
        monkeypatch.setattr(http, "ANSWER_SECONDS", -1)
        every.look()
        assert transport.closed

    asyncio.run(meet())


def test_others_are_answered_beside_a_long_request_and_it_is_answered_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "AT_ONCE_BYTES", 0)
    monkeypatch.setattr(http, "HEADER_SECONDS", -1)

    async def meet() -> None:
        every = connections()
        (busy, kept), (_, idle), (other, its) = (connected(every) for _ in range(3))
        receive(busy, POST + b"1\r\n\r\nw" + GET)
        receive(other, GET)
        assert Answers(its.written).found == [(200, ASKED[GET])]
        every.stop()
        assert (idle.closed, its.closed, kept.closed) == (True, True, False)
        every.look()  # a client that waits for its answer has no deadline
        assert not kept.closed
        every.service.goes.set()  # type: ignore[attr-defined]
        while not kept.closed:
            await asyncio.sleep(0.001)
        assert Answers(kept.written).found == [(200, ["POST", "/b", "w"])]
        assert b"\r\nconnection: close\r\n" in kept.written

    asyncio.run(meet())
