"""Jobs of more tasks than a process has connections for by default."""

from __future__ import annotations

import contextlib
import resource

import pytest

from tests.ps.serving import serving
from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.ps.transport.connection import Connection
from xpsql.platform.ps.transport.connection_limits import OWN_FILES, make_room, room_for
from xpsql.platform.ps.transport.over_sockets import SocketTransport
from xpsql.platform.ps.transport.wire import ConnectionLimits
from xpsql.platform.training.tasks.coordinator import Coordinator
from xpsql.platform.training.tasks.messages import FIND, Find, ShardAddresses

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (2000 + OWN_FILES, 1 << 20, None),
        (UNLIMITED, UNLIMITED, None),
        (1024, 1 << 20, (2000 + OWN_FILES, 1 << 20)),
        (1024, UNLIMITED, (2000 + OWN_FILES, UNLIMITED)),
    ],
)
def test_the_limit_of_open_files_is_raised_where_it_is_too_low(
    soft: int, hard: int, raised: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda what: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: changes.append(limits))
    make_room(2000)
    assert changes == ([] if raised is None else [raised])


def test_a_job_with_more_connections_than_files_may_be_opened_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, 4096))
    with pytest.raises(TrainingError, match=r"needs 12000 connections at once, so 12256 open files, and may have 4096\."):
        Coordinator("m v1", 1000, 3000, "127.0.0.1", (), lambda role, number: None, None, None, SocketTransport())


def test_small_jobs_get_the_usual_limits() -> None:
    assert room_for(100) == ConnectionLimits()


def test_a_coordinator_takes_the_connections_of_all_tasks() -> None:
    count = ConnectionLimits().connections + 50
    with (
        Coordinator("m v1", 0, count, "127.0.0.1", (), lambda role, number: None, None, None, SocketTransport()) as coordinator,
        contextlib.ExitStack() as stack,
    ):
        contact = coordinator.contact
        for _ in range(count):
            last = Connection("the coordinator", contact.address, contact.secret, ConnectionLimits(), None)
            stack.callback(last.close)
        assert last.call(FIND, Find(), 5) == ShardAddresses(())


def test_a_client_that_no_thread_is_left_for_is_refused_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as (server, service):
        with monkeypatch.context() as patch:
            patch.setattr("threading.Thread.start", refuse)
            with pytest.raises(LostError, match="closed after 0 of 40 bytes"):
                service.connect(server.address)
        assert "cannot serve a client on this host: can't start new thread" in caplog.text
        assert service.connect(server.address)
        assert server.num_connections == 1


def refuse(thread: object) -> None:
    raise RuntimeError("can't start new thread")
