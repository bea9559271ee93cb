"""A server answers its clients in order, and refuses, logs and closes whatever else connects while they go on."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import selectors
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.ps.serving import BREAK, ECHO, FAIL, HOLD, HOST, SECRET, Service, Wait, raw, serving, tcp, until_closed, values
from xpsql.platform.errors import DataError, StatementError, TrainingError
from xpsql.platform.ps.transport import connection, sockets, unauthenticated
from xpsql.platform.ps.transport.connection import Connection, Exchange
from xpsql.platform.ps.transport.handshake import HELLO, MAGIC, PROOF, VERSION, introduce, welcome
from xpsql.platform.ps.transport.server import Server
from xpsql.platform.ps.transport.sockets import Address, SocketStream, connect, is_own, seen_by_client
from xpsql.platform.ps.transport.tls import Certificate, client_context, make_certificate, server_context
from xpsql.platform.ps.transport.wire import HEADER, ConnectionLimits, Status, pack

LOGGER = "xpsql.platform.ps.transport.server"
SHORT = ConnectionLimits(proof_seconds=0.5, stall_seconds=0.5)
HONEST = pack(Status.REQUEST, b"echo", 1, ECHO.request, values(5)).next(1 << 20)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    pytest.importorskip("cryptography")
    return make_certificate()


@pytest.fixture(params=["unix", "tcp", "tls"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Connection, Service]]:
    """A connection of each kind."""
    made = request.getfixturevalue("certificate") if request.param == "tls" else None
    if request.param == "unix" and sys.platform != "linux":
        pytest.skip("no abstract Unix sockets")
    with serving(certificate=made) as (server, service):
        address = server.address if request.param == "unix" else tcp(server.address)
        client = service.connect(address, public=made and made.public)
        yield client, service


def echoes(client: Connection, n: int = 10) -> bool:
    return bool((client.call(ECHO, values(n), 10).values == np.arange(n)).all())


def wait_until(condition: object, what: str) -> None:
    """Wait for what another thread is about to do, for at most five seconds."""
    deadline = time.monotonic() + 5
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.002)


def test_calls_are_answered(served: tuple[Connection, Service]) -> None:
    client, _ = served
    for n in (0, 1, 17, 10_000, 3_000_000, 5):
        assert echoes(client, n)


def test_requests_may_be_sent_ahead_and_are_answered_in_order(served: tuple[Connection, Service]) -> None:
    """Both ends send more than sockets hold before the client reads, so that a client that only wrote would block."""
    client, _ = served
    pending = [client.start(ECHO, values(500_000, str(i))) for i in range(12)]

    exchange = Exchange([client])
    for i, one in enumerate(pending):
        answer = exchange.result(one, 30)
        assert (answer.note, len(answer.values)) == (str(i), 500_000)


def test_errors_are_raised_at_the_client_as_the_same_class(
    served: tuple[Connection, Service], caplog: pytest.LogCaptureFixture
) -> None:
    client, _ = served
    with pytest.raises(DataError, match=r"^column a: 3 values$"):
        client.call(FAIL, values(3, "column a"), 10)
    with pytest.raises(TrainingError, match="break failed with ZeroDivisionError: number 4"):
        client.call(BREAK, Wait(4), 10)
    assert "ZeroDivisionError" in caplog.text, "a bug leaves its traceback in the log"
    assert echoes(client)


def test_a_missing_answer_is_an_error_that_names_the_server_and_its_address(served: tuple[Connection, Service]) -> None:
    client, _ = served
    with pytest.raises(TrainingError, match=rf"No answer to hold from the tester at {HOST}:\d+ within 0.1 s"):
        client.call(HOLD, Wait(), 0.1)


def test_what_other_servers_say_is_taken_while_one_is_waited_for() -> None:
    """The second server would cut off a client that left most of a long answer for longer than a frame may take."""
    with serving() as (slow, held), serving(SHORT) as (other, service):
        first, second = held.connect(slow.address), service.connect(tcp(other.address))
        exchange = Exchange([first, second])
        never, echo = first.start(HOLD, Wait()), second.start(ECHO, values(8_000_000))
        assert not exchange.ready(never, 4 * SHORT.stall_seconds)
        assert len(exchange.result(echo, 5).values) == 8_000_000


def test_a_signal_ends_a_wait_for_an_answer(served: tuple[Connection, Service]) -> None:
    class StopError(Exception):
        pass

    def stop(*_: object) -> None:
        raise StopError

    client, _ = served
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(StopError):
            client.call(HOLD, Wait(), 30)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_close_lets_the_calls_being_answered_finish() -> None:
    with serving() as (server, service):
        client = service.connect(server.address)
        pending = client.start(HOLD, Wait())
        assert service.held.acquire(timeout=5)
        closer = threading.Thread(target=server.close)
        closer.start()
        service.release.set()

        Exchange([client]).result(pending, 5)
        closer.join(5)
        assert not closer.is_alive()
        assert server.num_connections == 0


def test_a_close_takes_about_a_second_at_most_and_cuts_off_who_hangs(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as (server, service):
        idle, hanging = service.connect(server.address), service.connect(tcp(server.address))
        assert echoes(idle)
        pending = hanging.start(HOLD, Wait())
        assert service.held.acquire(timeout=5)
        start = time.monotonic()
        server.close()
        assert time.monotonic() - start < 1.5
        assert "1 calls are still being answered" in caplog.text

        with pytest.raises(TrainingError, match=r"Lost the tester at .* during hold"):
            Exchange([hanging]).result(pending, 5)
        with pytest.raises(TrainingError, match="Lost the tester"):
            idle.call(ECHO, values(1), 5)
    with pytest.raises(TrainingError, match="Cannot connect to the tester"):
        service.connect(server.address)


@pytest.mark.parametrize("secret", [b"", b"another", SECRET + b"\0"])
def test_a_client_with_another_secret_is_refused_and_logged(secret: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with serving() as (server, service):
        with pytest.raises(TrainingError, match="the server refused: the secret is not that of its job"):
            service.connect(server.address, secret)
        wait_until(lambda: "does not have the secret of this job" in caplog.text, "the refusal is logged")
        assert echoes(service.connect(server.address))


def test_a_server_with_another_secret_is_refused() -> None:
    """It lets everybody in, but cannot prove itself."""
    with socket.create_server((HOST, 0)) as listener:

        def impostor() -> None:
            with listener.accept()[0] as sock:
                stream = SocketStream(sock, 5)
                stream.send(HELLO.pack(MAGIC, VERSION, 0, bytes(32)))
                stream.receive(PROOF.size)
                stream.send(HELLO.pack(MAGIC, VERSION, 0, bytes(32)))

        thread = threading.Thread(target=impostor)
        thread.start()
        with pytest.raises(TrainingError, match="the server does not have the secret of this job"):
            Connection("the tester", Address(HOST, listener.getsockname()[1]), SECRET, ConnectionLimits(), None)
        thread.join()


def test_no_secret_and_no_two_equal_handshakes_are_on_the_wire() -> None:
    def sent_by_both() -> bytes:
        data: list[bytes] = []
        here, there = socket.socketpair()

        class Tapped(SocketStream):
            def send(self, sent: bytes) -> None:
                data.append(sent)
                super().send(sent)

        with here, there:
            thread = threading.Thread(target=welcome, args=(Tapped(there, 5), SECRET, b"tcp", lambda: True))
            thread.start()
            introduce(Tapped(here, 5), SECRET, b"tcp")
            thread.join()
        return b"".join(data)

    one, two = sent_by_both(), sent_by_both()
    assert SECRET not in one
    assert len(one) == len(two) == 40 + 72 + 40
    for start, size in ((8, 32), (48, 32), (80, 32), (120, 32)):
        assert one[start : start + size] != two[start : start + size]


def test_a_proof_cannot_be_replayed() -> None:
    recorded: list[bytes] = []

    class Tapped(SocketStream):
        def send(self, sent: bytes) -> None:
            recorded.append(sent)
            super().send(sent)

    with serving() as (server, _):
        with connect(server.address, 5, None) as sock:
            introduce(Tapped(sock, 5), SECRET, seen_by_client(sock))
        assert len(recorded[0]) == PROOF.size
        with raw(server.address, greet=False) as stream:
            stream.receive(HELLO.size)
            stream.send(recorded[0])
            _, _, verdict, _ = HELLO.unpack(stream.receive(HELLO.size))
            assert verdict == 1
        assert recorded[0][:4] == MAGIC
        assert VERSION == 1


def test_who_says_nothing_is_closed_after_the_time_for_the_handshake(caplog: pytest.LogCaptureFixture) -> None:
    with serving(SHORT) as (server, service), raw(server.address, greet=False) as silent:
        assert echoes(service.connect(server.address))
        assert len(until_closed(silent)) == HELLO.size
        wait_until(lambda: "it has not proved itself within 0.5 s" in caplog.text, "the log to tell why")


def test_who_drips_a_tls_handshake_is_closed_after_the_same_time(certificate: Certificate) -> None:
    """Each byte comes in time; the whole does not."""
    with serving(SHORT, certificate) as (server, service), raw(server.address, greet=False) as dripping:
        header, closed = b"\x16\x03\x01\x02\x00\x01", False
        for byte in header + bytes(10_000):
            try:
                dripping.send(bytes([byte]))
                closed = bool(select.select([dripping._socket], [], [], 0.01)[0])
            except OSError:
                closed = True
            if closed:
                break
        assert closed
        assert echoes(service.connect(server.address, public=certificate.public))


@pytest.mark.parametrize("kind", ["unix", "tcp", "tls"])
def test_strangers_take_no_room_of_honest_clients_and_the_log_tells_of_them_once_a_second(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = request.getfixturevalue("certificate") if kind == "tls" else None
    monkeypatch.setattr(unauthenticated, "LEAST_SECONDS", 0.0)
    with (
        serving(ConnectionLimits(connections=2, strangers=4, proof_seconds=60), made) as (server, service),
        ExitStack() as stack,
    ):
        address = server.address if kind == "unix" else tcp(server.address)
        first = service.connect(address, public=made and made.public)
        silent = [stack.enter_context(raw(address, greet=False)) for _ in range(50)]
        second = service.connect(address, public=made and made.public)
        assert echoes(first)
        assert echoes(second)
        for stream in silent[:46]:
            until_closed(stream)
        wait_until(lambda: server.num_connections <= 2 + 4, "those that were put out are gone")
    reported = [line for line in caplog.text.splitlines() if "it had not proved itself when others came" in line]
    assert 1 <= len(reported) < 10, "46 were put out, in much less than ten seconds"


def test_clients_that_come_at_once_all_have_a_moment_to_prove_themselves() -> None:
    with serving(ConnectionLimits(strangers=2)) as (server, service):
        wrong: list[BaseException] = []

        def come() -> None:
            try:
                assert echoes(service.connect(tcp(server.address)))
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=come) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_who_stalls_within_a_frame_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    with serving(SHORT) as (server, service), raw(tcp(server.address)) as stalled:
        honest = service.connect(server.address)
        stalled.send(HONEST[:-1])
        assert b"not complete within 0.5 s" in until_closed(stalled)
        assert "refused 127.0.0.1" in caplog.text
        assert echoes(honest)


def test_an_idle_client_is_not_closed() -> None:
    """Idle for longer than a frame may take; the server's clock is the wait itself."""
    with serving(SHORT) as (server, service):
        client = service.connect(server.address)
        with raw(server.address) as stalled:
            stalled.send(HONEST[:10])
            until_closed(stalled)
        assert echoes(client)


def test_connections_are_limited_and_a_place_that_is_left_is_free_again(caplog: pytest.LogCaptureFixture) -> None:
    with serving(ConnectionLimits(connections=2)) as (server, service):
        one, two = service.connect(server.address), service.connect(server.address)
        with pytest.raises(TrainingError, match="as many connections as it may"):
            service.connect(server.address)
        wait_until(lambda: "there are as many connections as there may be" in caplog.text, "the refusal is logged")
        assert echoes(one)
        two.close()
        wait_until(lambda: server.num_connections == 1, "the server notices that the client has left")
        assert echoes(service.connect(server.address))


def test_a_request_beyond_the_limits_is_refused_by_the_client_itself() -> None:
    with serving() as (server, service):
        client = service.connect(server.address, limits=ConnectionLimits(frame_bytes=1000))
        with pytest.raises(TrainingError, match="the limit is 1000; use smaller batches"):
            client.start(ECHO, values(1000))
        assert echoes(client)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (HEADER.pack(b"XPSQ", 2, 0, 0, 0, 0, 1, b"echo"), "version 1 of the protocol, got 2"),
        (HEADER.pack(b"XPSQ", 1, 0, 0, 0, 1 << 40, 1, b"echo"), "the limits are"),
        (HEADER.pack(b"XPSQ", 1, 1, 0, 0, 0, 1, b"echo"), "expected a request"),
        (HEADER.pack(b"XPSQ", 1, 0, 0, 0, 0, 1, b"other"), "does not answer 'other'; it answers break, echo, fail, hold"),
        (HEADER.pack(b"XPSQ", 1, 0, 1, 0, 0, 1, b"echo"), "not the Values of this version"),
        (b"GET / HTTP/1.1\r\n".ljust(HEADER.size), "starts with"),
    ],
)
def test_a_frame_that_is_no_request_is_refused_with_the_reason_and_logged(
    frame: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as (server, service), raw(server.address) as stream:
        honest = service.connect(server.address)
        stream.send(frame)
        assert reason in until_closed(stream).decode("utf-8", "replace")
        assert reason in caplog.text
        assert echoes(honest)


@pytest.fixture(scope="module")
def attacked() -> Iterator[tuple[Server, Service, Connection]]:
    """One server, and an honest client that has been there from the start."""
    with serving(ConnectionLimits(frame_bytes=1 << 24)) as (server, service):
        client = service.connect(server.address)
        yield server, service, client


def damaged(frame: bytes) -> st.SearchStrategy[bytes]:
    def change(data: tuple[list[tuple[int, int]], int]) -> bytes:
        changed = bytearray(frame)
        for at, value in data[0]:
            changed[at] = value
        return bytes(changed[: data[1]])

    places = st.lists(st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255)), max_size=4)
    return st.tuples(places, st.integers(0, len(frame))).map(change)


SIZES = st.integers(0, 2**64 - 1)
HEADERS = st.builds(
    lambda contents, body, kind: HEADER.pack(b"XPSQ", 1, 0, ECHO.request.checksum, contents, body, 1, kind),
    st.integers(0, 2**32 - 1),
    SIZES,
    st.sampled_from([b"echo", b"fail", b"hold?", b"\xff" * 16]),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.booleans(),
    st.lists(st.one_of(st.binary(max_size=300), damaged(HONEST), HEADERS, st.just(HONEST)), min_size=1, max_size=4),
    st.booleans(),
)
def test_whatever_bad_peers_send_honest_clients_go_on(
    attacked: tuple[Server, Service, Connection], greet: bool, pieces: list[bytes], unix: bool
) -> None:
    server, _, honest = attacked
    address = server.address if unix else tcp(server.address)
    with raw(address, greet) as bad:
        for piece in pieces:
            try:
                bad.send(piece)
            except OSError:
                break  # it has been closed already
    assert echoes(honest)
    with raw(address) as fresh:
        fresh.send(HONEST)
        assert fresh.receive(len(HONEST))[HEADER.size :] == HONEST[HEADER.size :]


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=64))
def test_a_wrong_secret_of_any_kind_is_refused(attacked: tuple[Server, Service, Connection], secret: bytes) -> None:
    server, service, honest = attacked
    if secret != SECRET:
        with pytest.raises(TrainingError, match="secret"):
            service.connect(server.address, secret)
    assert echoes(honest)


def test_after_all_that_only_honest_clients_are_left_and_the_log_has_the_reasons(
    attacked: tuple[Server, Service, Connection], caplog: pytest.LogCaptureFixture
) -> None:
    server, _, _ = attacked
    wait_until(lambda: server.num_connections == 1, "bad peers are closed")
    with caplog.at_level(logging.WARNING, LOGGER), raw(server.address) as bad:
        bad.send(b"x" * HEADER.size)
        wait_until(lambda: server.num_connections == 1, "the peer is closed")
    assert "refused" in caplog.text


def test_sixteen_connections_at_once_get_their_own_answers() -> None:
    with serving() as (server, service):
        wrong: list[str] = []

        def work(number: int) -> None:
            client = service.connect(server.address if number % 2 else tcp(server.address))
            for step in range(50):
                note = f"{number} {step}"
                answer = client.call(ECHO, values(number * 100, note), 30)
                if answer.note != note or len(answer.values) != number * 100:
                    wrong.append(note)
            client.close()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_a_client_that_expects_tls_says_so_when_there_is_none(certificate: Certificate) -> None:
    with serving() as (server, service), pytest.raises(TrainingError, match=r"Cannot connect to the tester.*(SSL|TLS)"):
        service.connect(tcp(server.address), public=certificate.public)


def test_a_client_does_not_accept_another_certificate(certificate: Certificate) -> None:
    another = pytest.raises(TrainingError, match="CERTIFICATE_VERIFY_FAILED")
    with serving(certificate=make_certificate()) as (server, service), another:
        service.connect(tcp(server.address), public=certificate.public)


@contextlib.contextmanager
def relaying(
    listener: socket.socket, meet: Callable[[socket.socket], socket.socket], reach: Callable[[], socket.socket]
) -> Iterator[bytearray]:
    """Stand between a client and a server without the secret; give what the client has sent."""
    seen = bytearray()

    def stand() -> None:
        with contextlib.suppress(OSError), meet(listener.accept()[0]) as client, reach() as server:
            server.settimeout(5)
            client.settimeout(5)
            for source, to in ((server, client), (client, server), (server, client), (client, server)):
                data = source.recv(1 << 16)
                seen.extend(data if source is client else b"")
                to.sendall(data)

    thread = threading.Thread(target=stand)
    thread.start()
    with listener:
        try:
            yield seen
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def squatting(address: Address) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + address.unix)
    listener.listen()
    return listener


linux = pytest.mark.skipif(sys.platform != "linux", reason="no abstract Unix sockets")


@linux
def test_who_squats_on_a_name_and_passes_on_what_is_said_does_not_get_in() -> None:
    """As in another container: the client finds the relay under the name, and the relay reaches the server by TCP."""
    with serving() as (server, service):
        advertised = server.address._replace(unix="xpsql-squatted-in-a-test")
        refused = pytest.raises(TrainingError, match="the server refused")
        with relaying(squatting(advertised), lambda sock: sock, lambda: connect(tcp(server.address), 5, None)) as seen, refused:
            service.connect(advertised)
        assert len(seen) == PROOF.size


@linux
def test_clients_pass_by_a_name_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "is_own", lambda unix: False)
    with serving() as (server, service):
        advertised = server.address._replace(unix="xpsql-squatted-in-a-test")
        with relaying(squatting(advertised), lambda sock: sock, lambda: connect(tcp(server.address), 5, None)) as seen:
            assert echoes(service.connect(advertised))
        assert not seen


@linux
def test_the_user_at_the_other_end_of_a_unix_socket_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as (server, _), connect(server.address, 5, None) as sock:
        assert sock.family == socket.AF_UNIX
        assert is_own(sock)
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
        assert not is_own(sock)


@linux
def test_with_tls_no_unix_socket_is_offered_and_none_is_used(certificate: Certificate) -> None:
    with serving(certificate=certificate) as (server, service):
        assert server.address.unix == ""
        advertised = server.address._replace(unix="xpsql-squatted-in-a-test")
        with relaying(squatting(advertised), lambda sock: sock, lambda: connect(tcp(server.address), 5, None)) as seen:
            assert echoes(service.connect(advertised, public=certificate.public))
        assert not seen


def test_who_shows_another_certificate_and_passes_on_the_handshake_does_not_get_in(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the client's TLS accepts any certificate."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    own, to_server = server_context(make_certificate()), client_context(certificate.public)
    monkeypatch.setattr(connection, "client_context", lambda public: trusting)
    with serving(certificate=certificate) as (server, service):
        listener = socket.create_server((HOST, 0))

        def meet(sock: socket.socket) -> socket.socket:
            return own.wrap_socket(sock, server_side=True)

        between = server.address._replace(port=listener.getsockname()[1])
        refused = pytest.raises(TrainingError, match="the server refused")
        with relaying(listener, meet, lambda: connect(server.address, 5, to_server)) as seen, refused:
            service.connect(between, public=certificate.public)
        assert len(seen) == PROOF.size
        assert echoes(service.connect(server.address, public=certificate.public))


def test_tls_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(StatementError, match=r"pip install 'xpsql\[tls\]'"):
        make_certificate()


def test_a_server_may_be_closed_before_its_thread_has_begun_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    closing = threading.Event()

    class Late(selectors.DefaultSelector):
        def __enter__(self) -> Late:
            assert closing.wait(5)
            return self

    monkeypatch.setattr(selectors, "DefaultSelector", Late)
    server = Server("the tester", (), SECRET, HOST)
    reported = server._closing.set

    def tell() -> None:
        reported()
        closing.set()
        server._acceptor.join(5)

    monkeypatch.setattr(server._closing, "set", tell)
    server.close()
    assert not server._acceptor.is_alive()
    assert [sock.fileno() for sock in (*server._listeners, server._wake, server._woken)] == [-1] * (len(server._listeners) + 2)
