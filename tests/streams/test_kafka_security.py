"""TLS and SASL: what a statement says of them is what brokers see, and what cannot be is refused before anything starts."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import xpsql
from tests.streams.landing import train
from tests.streams.topics import SCHEMA
from xpsql.platform.errors import DataError
from xpsql.platform.input.streams import messages as reading

SECONDS = 20.0
HANDSHAKE, VERSIONS, UNSUPPORTED_VERSION = 17, 18, 35
CLIENT_HELLO = b"\x16\x03"


@contextmanager
def listening(answer: Callable[[socket.socket], bytes]) -> Iterator[tuple[int, Future[bytes]]]:
    """Give a port, and what a function makes of the first that connects to it."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(SECONDS)

        def accept() -> bytes:
            client, _ = server.accept()
            with client:
                client.settimeout(SECONDS)
                return answer(client)

        yield server.getsockname()[1], pool.submit(accept)


def received(client: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (more := client.recv(count - len(found))):
        found += more
    return found


def framed(client: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", received(client, 4))
    return received(client, size)


def login(client: socket.socket) -> bytes:
    """Speak as a broker does that knows the first versions alone, up to the login; return the mechanism that is asked for, and
    what the client logs in with.

    Source: Kafka protocol guide: ApiVersions and SaslHandshake, version 0, after which tokens of the mechanism follow.
    """
    while True:
        request = framed(client)
        key, version, correlation, named = struct.unpack_from(">hhih", request)
        if key == HANDSHAKE:
            break
        known = b"".join(struct.pack(">hhh", api, 0, 0) for api in (3, HANDSHAKE, VERSIONS))
        error = UNSUPPORTED_VERSION if version else 0
        respond(client, struct.pack(">ihi", correlation, error, 3) + known)
    mechanism = request[10 + named + 2 :]
    respond(client, struct.pack(">ihih", correlation, 0, 1, len(mechanism)) + mechanism)
    return mechanism + b" " + framed(client)


def respond(client: socket.socket, body: bytes) -> None:
    client.sendall(struct.pack(">i", len(body)) + body)


def asked(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch, port: int, settings: str) -> None:
    """Train on a topic of what listens at a port, which is no broker."""
    monkeypatch.setattr(reading, "ANSWER_SECONDS", 1.0)
    with pytest.raises(DataError, match=rf"No broker of 127\.0\.0\.1:{port} answers for topic t"):
        train(session, f"read_kafka('t', bootstrapServers => '127.0.0.1:{port}', schema => '{SCHEMA}', {settings})")
    assert not session.models.names()


@pytest.mark.parametrize(
    "given",
    [
        "kafka.sasl.mechanism => 'PLAIN', kafka.sasl.username => 'ads', kafka.sasl.password => 'env:ADS_PASSWORD'",
        "kafka.sasl.mechanism => 'PLAIN', kafka.sasl.jaas.config => 'env:ADS_JAAS'",
    ],
    ids=["librdkafka", "jaas"],
)
def test_a_login_arrives_at_the_broker(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("ADS_PASSWORD", "swordfish")
    monkeypatch.setenv("ADS_JAAS", "PlainLoginModule required username='ads' password=\"swordfish\";")
    with listening(login) as (port, seen):
        asked(session, monkeypatch, port, f"kafka.security.protocol => 'SASL_PLAINTEXT', {given}")
        assert seen.result(SECONDS) == b"PLAIN \0ads\0swordfish"


def test_tls_is_spoken_where_it_is_asked_for(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(lambda client: received(client, 2)) as (port, seen):
        asked(session, monkeypatch, port, "kafka.security.protocol => 'SSL'")
        assert seen.result(SECONDS) == CLIENT_HELLO


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("kafka.security.protocol => 'TLS'", 'Invalid value "TLS" for configuration property "security.protocol"'),
        ("kafka.security.protocol => 'SSL', kafka.ssl.ca.location => '/nowhere.pem'", "ssl.ca.location failed"),
        ("kafka.security.protocol => 'SASL_SSL', kafka.sasl.mechanism => 'NONE'", "Unsupported SASL mechanism: NONE"),
        ("kafka.security.protocol => 'SASL_SSL', kafka.sasl.mechanism => 'PLAIN'", "sasl.username and sasl.password"),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(session: xpsql.Session, settings: str, message: str) -> None:
    with pytest.raises(DataError, match=f"librdkafka refuses the settings of read_kafka: .*{message}"):
        train(session, f"read_kafka('t', bootstrapServers => '127.0.0.1:1', schema => '{SCHEMA}', {settings})")
    assert not session.models.names()
