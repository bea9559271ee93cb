"""Requests are taken as a second parser, h11, takes them, or refused: a proxy in front may be such a parser."""

from __future__ import annotations

import asyncio
import itertools
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

h11 = pytest.importorskip("h11")

from tests.cases import costly, lengthy  # noqa: E402

from .test_connection import Answers, said  # noqa: E402

Asked = list[str]
INNER = b"GET /inner HTTP/1.1\r\nHost: h\r\n\r\n"
METHODS = [b"GET", b"POST", b"OPTIONS", b"PUT", b"CONNECT", b"get", b"PRI", b"X Y", b"DELETE", b"SOURCE"]
TARGETS = [b"/a", b"/b?c=d", b"http://there/e", b"*", b"", b"/a b", b"//x", b"/%20", b"h:1", b"/\x80", b"/f#g"]
VERSIONS = [b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/01.1", b""]
FIELDS = [
    *[b"Host: h"] * 8, b"Host: g", b"Host:", b"Host : h", b"host: a b", b"Content-Length: 3", b"Content-Length: 33",
    b"Content-Length: 0", b"Content-Length: +3", b"Content-Length: 3, 3", b"Content-Length: 0x3", b"Content-Length: 3 3",
    b"Content-Length:", b"Content-Length: 03", b"Content_Length: 3", b"Content-Length : 3", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: Chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, gzip",
    b"Transfer-Encoding: identity", b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: \x0bchunked", b"Transfer-Encoding:",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding: chunked;q=1", b"X: y\r\n folded", b" Content-Length: 3", b"X",
    b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade", b"Connection: Upgrade, close", b"Upgrade: h2c",
    b"Connection: Content-Length", b"Expect: 100-continue", b"X: \x00", b"X: a\rContent-Length: 3", b": y", b"X\x80: y",
]  # fmt: skip
ENDS = [b"\r\n"] * 12 + [b"\n", b"\r", b"\r\r\n"]
CHUNK, LAST = b"3\r\nxyz\r\n", b"0\r\n\r\n"
BODIES = [
    b"", b"xyz", INNER, b"xyz" + INNER, b"\r\n" + INNER, CHUNK + LAST, CHUNK + LAST + INNER, CHUNK + b"0\r\n" + INNER,
    CHUNK + b"0\r\n\n" + INNER, b"3;a=b\r\nxyz\r\n0\r\nT: u\r\n\r\n", b"3 \r\nxyz\r\n" + LAST, b"+3\r\nxyz\r\n" + LAST,
    b"0x3\r\nxyz\r\n" + LAST, b"3\nxyz\r\n" + LAST, b"3\r\nxyzz\r\n" + LAST,
    b"03\r\nxyz\r\n00\r\n\r\n", b"3;\nx\r\nxyz\r\n" + LAST,
    b'3;a="\r\n"\r\nxyz\r\n' + LAST, b"0\r\nContent-Length: 3\r\n\r\n" + INNER, b"0\r\nX\r\n\r\n",
    b"FFFFFFFFFFFFFFFF1\r\nxyz\r\n" + LAST,
]  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw a request, most of whose parts are as they should be."""
    method, target = draw(st.sampled_from(METHODS[:2] * 4 + METHODS)), draw(st.sampled_from(TARGETS[:2] * 3 + TARGETS))
    fields = [b"Host: h", *draw(st.lists(st.sampled_from(FIELDS), max_size=4))][draw(st.sampled_from([0, 0, 0, 0, 1])) :]
    head = [b" ".join((method, target, draw(st.sampled_from(VERSIONS)))), *draw(st.permutations(fields)), b""]
    return b"".join(one + draw(st.sampled_from(ENDS)) for one in head) + draw(st.sampled_from(BODIES) | st.binary(max_size=40))


def taken(data: bytes) -> list[Asked]:
    """Return what h11 takes the bytes for, up to where it refuses them, waits for more or closes."""
    server, found, body = h11.Connection(h11.SERVER), list[Asked](), b""
    server.receive_data(data)
    asked = None
    try:
        while not isinstance(event := server.next_event(), type(h11.NEED_DATA)):
            match event:
                case h11.Request():
                    asked, body = event, b""
                case h11.Data():
                    body += bytes(event.data)
                case h11.EndOfMessage():
                    assert asked is not None
                    target = asked.target.decode("latin-1")
                    path = target.partition("?")[0] if target.startswith("/") else urlsplit(target).path
                    found.append([asked.method.decode(), path, body.decode("latin-1")])
                    server.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                    server.send(h11.EndOfMessage())
                    if server.our_state is h11.MUST_CLOSE:
                        break
                    server.start_next_cycle()
                case _:
                    break
    except h11.ProtocolError as error:
        if str(error) == "no request line received":  # an empty line, which servers should pass over (RFC 9112, 2.2)
            return found + taken(server.trailing_data[0])
    return found


def accepted(data: bytes, cuts: set[int]) -> list[Asked]:
    """Return what the service takes the same bytes for; they come in pieces."""
    places = sorted({0, len(data)} | {cut for cut in cuts if cut < len(data)})
    transport = asyncio.run(said(*(data[at:end] for at, end in itertools.pairwise(places))))
    answers = transport.written.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    return [answer for status, answer in Answers(answers).found if status == 200]


def agree(data: bytes, cuts: set[int]) -> None:
    ours, other = accepted(data, cuts), taken(data)
    assert ours == other[: len(ours)], data


@lengthy
@settings(max_examples=300, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=3), st.sets(st.integers(0, 400), max_size=6))
def test_two_parsers_agree_on_what_the_service_answers(several: list[bytes], cuts: set[int]) -> None:
    agree(b"".join(several), cuts)


@costly
def test_two_parsers_agree_on_each_field_with_each_body() -> None:
    for method, first, body in itertools.product((b"GET", b"POST"), dict.fromkeys(FIELDS), BODIES):
        for second in (b"X: y", b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Connection: Upgrade\r\nUpgrade: h2c"):
            for fields in ((first, second), (second, first)):
                agree(method + b" /a HTTP/1.1\r\nHost: h\r\n" + b"\r\n".join(fields) + b"\r\n\r\n" + body, {7, 60})


def test_a_body_of_a_request_that_wishes_another_protocol_is_read_by_its_length() -> None:
    head = b"POST /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: "
    assert accepted(head + b"3\r\n\r\nxyz" + INNER, set()) == [["POST", "/a", "xyz"], ["GET", "/inner", ""]]
    assert accepted(head + b"8\r\n\r\nGET / HTTP/1.1\r\n\r\n", set())[:1] == [["POST", "/a", "GET / HT"]]
