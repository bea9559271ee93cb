"""Where the driver and the tasks of a job meet."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading

import pytest

from xpsql.platform.errors import DataError, LostError, TrainingError
from xpsql.platform.ps.transport.connection import Connection
from xpsql.platform.ps.transport.over_sockets import SocketTransport
from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.ps.transport.wire import ConnectionLimits
from xpsql.platform.training.tasks import coordinator as module
from xpsql.platform.training.tasks.coordinator import Coordinator
from xpsql.platform.training.tasks.membership import EndedError, Membership
from xpsql.platform.training.tasks.messages import JOIN, Join, Joined


class Departures(list[tuple[str, int]]):
    """Notes who has left."""

    def note(self, role: str, number: int) -> None:
        self.append((role, number))


class Losses(list[tuple[int, str]]):
    """Notes which workers are lost, and why."""

    def note(self, number: int, why: str, silent_seconds: float) -> None:
        self.append((number, why))


@pytest.fixture(autouse=True)
def fast_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.02)


def opened(num_shards: int, departures: Departures | None = None, losses: Losses | None = None) -> Coordinator:
    left = (Departures() if departures is None else departures).note
    lost = None if losses is None else losses.note
    return Coordinator("m v1", num_shards, 5, "127.0.0.1", (), left, lost, None, SocketTransport())


def test_shards_are_known_in_order_when_all_are_ready() -> None:
    with opened(2) as coordinator:
        with Membership(coordinator.contact, "shard", 1, 0) as second, Membership(coordinator.contact, "shard", 0, 0) as first:
            second.ready(Address("b", 2))
            assert coordinator.shards() is None
            first.ready(Address("a", 1))
            assert coordinator.shards() == [Address("a", 1), Address("b", 2)]
            with Membership(coordinator.contact, "worker", 0, 0) as worker:
                assert worker.shards(5) == [Address("a", 1), Address("b", 2)]
        coordinator.check()


def test_a_task_that_leaves_is_reported_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOST_SECONDS", 0.0)
    departures = Departures()
    with opened(1, departures) as coordinator:
        with Membership(coordinator.contact, "worker", 3, 0):
            pass
        assert departures == [("worker", 3)]
        coordinator.check()


def test_an_error_travels_to_the_driver_and_ends_the_others() -> None:
    with opened(1) as coordinator, Membership(coordinator.contact, "shard", 0, 0) as other:
        with pytest.raises(DataError), Membership(coordinator.contact, "worker", 0, 0):
            raise DataError("row 7 is bad")
        with pytest.raises(DataError, match="row 7 is bad"):
            coordinator.check()
        assert other.ended.wait(5)


def test_an_unexpected_error_names_the_task_and_the_error() -> None:
    with opened(1) as coordinator:
        with pytest.raises(ZeroDivisionError), Membership(coordinator.contact, "worker", 2, 0):
            print(1 // 0)
        with pytest.raises(TrainingError, match="worker 2 failed with ZeroDivisionError"):
            coordinator.check()


def test_all_tasks_end_when_the_driver_says_so() -> None:
    with opened(1) as coordinator, Membership(coordinator.contact, "shard", 0, 0) as member:
        coordinator.end()
        assert member.ended.wait(5)


def test_all_tasks_end_when_the_driver_is_gone() -> None:
    coordinator = opened(1)
    with Membership(coordinator.contact, "shard", 0, 0) as member:
        coordinator.__exit__(None, None, None)
        assert member.ended.wait(5)


def test_a_task_that_waits_for_shards_ends_with_the_job() -> None:
    with opened(1) as coordinator, Membership(coordinator.contact, "worker", 0, 0) as worker:
        threading.Timer(0.05, coordinator.end).start()
        with pytest.raises(EndedError):
            worker.shards(30)


def test_shards_that_do_not_come_are_an_error() -> None:
    with (
        opened(1) as coordinator,
        pytest.raises(TrainingError, match="Not all shards of m v1 have started"),
        Membership(coordinator.contact, "worker", 0, 0) as worker,
    ):
        worker.shards(0.05)


def test_a_silent_task_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(1) as coordinator, Membership(coordinator.contact, "shard", 0, 0):
        monkeypatch.setattr(module, "LOST_SECONDS", -1.0)
        with pytest.raises(TrainingError, match=r"Lost shard 0, process \d+ on \S+: it has not been heard of"):
            coordinator.check()


def test_a_second_attempt_waits_for_as_long_as_the_first_lives() -> None:
    with opened(1) as coordinator, Membership(coordinator.contact, "shard", 0, 0) as first:
        second = Membership(coordinator.contact, "shard", 0, 1)
        entered = threading.Event()

        def enter() -> None:
            with pytest.raises(EndedError), second:
                entered.set()

        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.2)
        assert not first.ended.is_set()
        coordinator.check()
        coordinator.end()
        assert first.ended.wait(5)
        thread.join(5)
        assert not entered.is_set()


def test_a_second_attempt_of_a_dead_task_tells_that_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLACED_SECONDS", 0.0)
    with opened(1) as coordinator, Membership(coordinator.contact, "shard", 0, 0):
        with pytest.raises(EndedError), Membership(coordinator.contact, "shard", 0, 1):
            pass
        with pytest.raises(LostError, match=r"Lost shard 0, process \d+ on \S+: its process or machine is gone"):
            coordinator.check()


def test_a_worker_that_is_lost_is_reported_before_its_next_attempt_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLACED_SECONDS", 0.0)
    losses = Losses()
    with opened(1, losses=losses) as coordinator, Membership(coordinator.contact, "worker", 4, 0) as first:
        coordinator.require("worker", 4, 0)
        with Membership(coordinator.contact, "worker", 4, 1):
            assert losses == [(4, f"process {os.getpid()} on {socket.gethostname()}: its process or machine is gone")]
            coordinator.require("worker", 4, 1)
            with pytest.raises(LostError, match="Attempt 0 of worker 4 was given up for lost"):
                coordinator.require("worker", 4, 0)
            assert first.ended.wait(5)
        coordinator.check()
    assert len(losses) == 1


def test_no_attempt_joins_before_the_loss_of_the_one_before_it_has_been_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLACED_SECONDS", 0.0)
    meanwhile: list[Joined] = []

    def lost(number: int, why: str, silent_seconds: float) -> None:
        with contextlib.closing(coordinator.contact.dial()) as connection:
            meanwhile.append(connection.call(JOIN, Join("worker", 4, 2, "host", 1), 10))

    coordinator = Coordinator("m v1", 1, 5, "127.0.0.1", (), Departures().note, lost, None, SocketTransport())
    with (
        coordinator,
        Membership(coordinator.contact, "worker", 4, 0),
        Membership(coordinator.contact, "worker", 4, 1),
    ):
        assert meanwhile == [Joined(accepted=False)]
        coordinator.require("worker", 4, 1)


def test_an_attempt_does_not_take_the_place_of_a_later_one() -> None:
    with opened(1) as coordinator, Membership(coordinator.contact, "worker", 0, 2):
        with (
            pytest.raises(LostError, match="Attempt 1 of worker 0 was given up for lost"),
            Membership(coordinator.contact, "worker", 0, 1),
        ):
            pass
        coordinator.require("worker", 0, 2)


def test_a_worker_that_lost_its_connections_is_lost_and_one_that_failed_fails_the_job() -> None:
    losses = Losses()
    with opened(1, losses=losses) as coordinator:
        with pytest.raises(LostError), Membership(coordinator.contact, "worker", 1, 0):
            raise LostError("Lost shard 0 of 2.")
        coordinator.check()
        assert [number for number, _ in losses] == [1]
        assert losses[0][1].endswith(": Lost shard 0 of 2.")
        with pytest.raises(DataError), Membership(coordinator.contact, "worker", 1, 1):
            raise DataError("row 7 is bad")
        with pytest.raises(DataError, match="row 7 is bad"):
            coordinator.check()


def test_a_silent_worker_is_lost_and_its_job_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = Losses()
    with opened(1, losses=losses) as coordinator, Membership(coordinator.contact, "worker", 0, 0) as member:
        monkeypatch.setattr(module, "LOST_SECONDS", -1.0)
        coordinator.check()
        assert [number for number, _ in losses] == [0]
        assert member.ended.wait(5)


def test_a_task_whose_connection_closes_before_it_leaves_is_lost_at_once() -> None:
    losses = Losses()
    with opened(1, losses=losses) as coordinator, Membership(coordinator.contact, "worker", 2, 0) as member:
        beating = coordinator.contact
        coordinator.require("worker", 2, 0)
        with contextlib.closing(
            Connection("the coordinator", beating.address, beating.secret, ConnectionLimits(), None)
        ) as connection:
            assert not connection.call(module.BEAT, module.Heartbeat("worker", 2, 0), 5).ended
        assert member.ended.wait(5)
        assert [number for number, _ in losses] == [2]
        assert losses[0][1].endswith("its connection is gone")


def leave(member: Membership, error: Exception) -> None:
    """Take part, and leave by an error when asked to stop."""
    with member:
        assert member.ended.wait(5)
        raise error


def test_what_is_lost_while_all_tasks_end_is_no_failure_of_a_task() -> None:
    with opened(1) as coordinator:
        with Membership(coordinator.contact, "shard", 0, 0):
            threading.Timer(0.05, coordinator.end).start()
            with pytest.raises(EndedError):
                leave(Membership(coordinator.contact, "worker", 0, 0), LostError("Lost shard 0 of 2."))
            assert not coordinator.dispersed(0)
        assert coordinator.dispersed(0)
        with pytest.raises(EndedError), Membership(coordinator.contact, "worker", 0, 1):
            pass
        coordinator.check()


def test_a_task_that_is_replaced_fails_so_that_the_engine_keeps_the_other() -> None:
    with opened(1, losses=Losses()) as coordinator:
        first = Membership(coordinator.contact, "worker", 0, 0).__enter__()
        coordinator.dismiss("worker")
        assert first.ended.wait(5)
        with pytest.raises(LostError, match="Attempt 0 of worker 0 was given up for lost"):
            first.__exit__(EndedError, EndedError(), None)
        late = Membership(coordinator.contact, "worker", 0, 1)
        with (
            Membership(coordinator.contact, "worker", 0, 2),
            pytest.raises(LostError, match="Attempt 1 of worker 0 was given up for lost"),
            late,
        ):
            pass
        coordinator.check()


def test_a_second_attempt_of_a_task_that_has_done_its_work_has_nothing_to_do() -> None:
    with opened(1, losses=Losses()) as coordinator:
        with Membership(coordinator.contact, "worker", 0, 0):
            pass
        with pytest.raises(EndedError), Membership(coordinator.contact, "worker", 0, 1):
            pass
        coordinator.check()


def test_tasks_that_must_end_are_answered_no_more() -> None:
    with opened(1) as coordinator, Membership(coordinator.contact, "worker", 0, 0):
        coordinator.require("worker", 0, 0)
        coordinator.fail(LostError("Lost shard 0."))
        with pytest.raises(LostError, match=r"All tasks end; worker 0 asks for work"):
            coordinator.require("worker", 0, 0)


def test_tasks_that_are_dismissed_end_and_others_take_their_numbers() -> None:
    with opened(1, losses=Losses()) as coordinator, Membership(coordinator.contact, "worker", 0, 0) as old:
        assert coordinator.joined("worker")
        coordinator.dismiss("worker")
        assert not coordinator.joined("worker")
        assert old.ended.wait(5)
        with Membership(coordinator.contact, "worker", 0, 1):
            coordinator.require("worker", 0, 1)
        coordinator.check()


@pytest.mark.parametrize("role", ["shard", "worker"])
def test_a_task_whose_heartbeats_fail_while_its_calls_go_on_is_lost_not_done(role: str) -> None:
    losses = Losses()
    with opened(1, losses=losses) as coordinator:
        first = Membership(coordinator.contact, role, 0, 0)
        expected = LostError if role == "worker" else EndedError  # the job goes on without a worker, not without a shard
        first.ended.set()
        with pytest.raises(expected), first:
            first.stay()
        if role == "worker":
            assert losses[0][1].endswith("its heartbeats are answered no more")
            with Membership(coordinator.contact, role, 0, 1):  # has something to do
                coordinator.check()
        else:
            with pytest.raises(LostError, match=r"Lost shard 0, process \d+ on \S+: its heartbeats are answered no more"):
                coordinator.check()


def test_a_driver_that_cannot_be_reached_is_an_error() -> None:
    with opened(1) as coordinator:
        contact = coordinator.contact
    with pytest.raises(TrainingError, match=r"A task on \S+ cannot connect to the driver of m v1 at \S+\. Allow connections"):
        Membership(contact, "shard", 0, 0)


def test_the_transport_of_sockets_travels_to_tasks() -> None:
    assert pickle.loads(pickle.dumps(SocketTransport())) == SocketTransport()
