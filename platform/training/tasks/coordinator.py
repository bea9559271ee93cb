"""The coordinator (rendezvous) of a job's driver and tasks: membership, addresses of shards, failures, and the end.

The driver holds a Coordinator, each task a Membership (membership.py). A task joins, sends a heartbeat once a second, and
ends when it is asked to, or when the driver is gone; so nothing outlives a driver that dies. A worker that is lost may be
replaced by its next attempt; the loss of a shard ends the job.

    with Coordinator("ctr v3", 2, 4, tasks.host, handlers, left, lost, None, SocketTransport()) as coordinator:
        ...                                         # start tasks with coordinator.contact
        while (addresses := coordinator.shards()) is None:
            coordinator.check()
            coordinator.wait(1)

    with Membership(contact, "shard", number, attempt) as member:   # in a task
        member.ready(server.address)
        member.stay()
"""

from __future__ import annotations

import functools
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from ...errors import LostError, XpsqlError
from ...ps.transport.base import Transport
from ...ps.transport.checks import COUNT, check_names, check_within
from ...ps.transport.connection_limits import room_for
from ...ps.transport.sockets import Address
from ...ps.transport.tls import Certificate
from ...ps.transport.wire import Acknowledged, Handler, error_of
from .messages import (
    BEAT,
    FIND,
    JOIN,
    LEAVE,
    READY,
    Contact,
    Find,
    Heartbeat,
    HeartbeatAnswer,
    Join,
    Joined,
    Leave,
    Left,
    Ready,
    ShardAddresses,
)

BEAT_SECONDS = 1.0
LOST_SECONDS = 30.0
REPLACED_SECONDS = 5.0
SECRET_BYTES = 32
PORTS = range(1, 1 << 16)
OF_TASK = 2
"""Connections that a task keeps to the coordinator: for its calls, and for its heartbeats."""
TO_SHARD = 4
"""Connections that the driver may have to a shard at once: to ask it, for a checkpoint, to give that up, to save."""

Lost = Callable[[int, str, float], None]


class Member:
    """What the coordinator knows of a task.

    Attributes:
        over: set when the task must end, or has: its heartbeats wait for it. Each task has its own event, so that no change
            wakes all of them.
        reported: whether the task's loss, if it was lost, has been reported completely; its next attempt begins after that.
    """

    def __init__(self, join: Join) -> None:
        self.attempt = join.attempt
        self.place = f"process {join.process} on {join.host}"
        self.address: Address | None = None
        self.seen = time.monotonic()
        self.over = threading.Event()
        self.left = False
        self.done = False  # it left well
        self.reported = True

    def leave(self) -> None:
        """Note that the task has left."""
        self.left = True
        self.over.set()


class Coordinator:
    """The driver's side; a context manager.

    Args:
        job: for messages, "ctr v3".
        num_shards, num_workers: that will take part.
        host: under which tasks reach this process.
        handlers: of further calls that the job's tasks make.
        left: called with the role and number of each task that has left.
        lost: called with the number of a lost worker, where it was and why, and the seconds since its last heartbeat, before
            its next attempt begins; None: a lost worker ends the job, as a lost shard does.
        certificate: of the job's servers, for TLS; None for none.
        transport: by which the tasks reach it, and each other.

    Raises:
        TrainingError: this process may not have so many connections as these tasks need.
    """

    def __init__(
        self,
        job: str,
        num_shards: int,
        num_workers: int,
        host: str,
        handlers: Sequence[Handler[Any, Any]],
        left: Callable[[str, int], None],
        lost: Lost | None,
        certificate: Certificate | None,
        transport: Transport,
    ) -> None:
        self._on_left = left
        self._on_lost = lost
        self._members: dict[tuple[str, int], Member] = {}
        self._num_shards = num_shards
        self._numbers = {"shard": range(num_shards), "worker": range(num_workers)}
        self._ended = False
        self._error: XpsqlError | None = None
        self._changed = threading.Condition()
        own: list[Handler[Any, Any]] = [Handler(JOIN, self._join), Handler(READY, self._ready), Handler(BEAT, self._beat)]
        own += [Handler(LEAVE, self._leave), Handler(FIND, self._find)]
        secret = secrets.token_bytes(SECRET_BYTES)
        limits = room_for(OF_TASK * (num_shards + num_workers) + TO_SHARD * num_shards)
        self._server = transport.serve(f"coordinator of {job}", (*own, *handlers), secret, host, limits, certificate)
        public = None if certificate is None else certificate.public
        self.contact = Contact(job, self._server.address, secret, public, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        self._server.close()

    def shards(self) -> list[Address] | None:
        """Return the addresses of the shards, in order; None until all are ready."""
        with self._changed:
            members = [self._members.get(("shard", number)) for number in range(self._num_shards)]
        ready = [member.address for member in members if member is not None and member.address is not None]
        return ready if len(ready) == self._num_shards else None

    def silent(self) -> float:
        """Return the seconds since that shard was heard of which is silent longest."""
        with self._changed:
            return max((age(member) for who, member in self._members.items() if who[0] == "shard"), default=0.0)

    def check(self) -> None:
        """Raise what a task failed with.

        Raises:
            XpsqlError: of the first task that failed.
            LostError: a shard, or a worker that nobody replaces, has not been heard of for half a minute, or was started a
                second time; names it.
        """
        with self._changed:
            silent = [who for who, m in self._members.items() if not m.left and age(m) > LOST_SECONDS]
        for who in silent:
            self._lose(who, f"it has not been heard of for {LOST_SECONDS:.0f} s")
        if self._error is not None:
            raise self._error

    @property
    def failed(self) -> bool:
        """Whether a task has failed, or is lost for good; all tasks end."""
        return self._error is not None

    def fail(self, error: XpsqlError) -> None:
        """End all tasks with an error."""
        with self._changed:
            self._fail(error)

    def joined(self, role: str) -> bool:
        """Return whether any task of a role has joined since they were last dismissed."""
        with self._changed:
            return any(who[0] == role for who in self._members)

    def dismiss(self, role: str) -> None:
        """Dismiss all tasks of a role and answer them no more; others may take their numbers."""
        with self._changed:
            for who in [who for who in self._members if who[0] == role]:
                self._members.pop(who).leave()
            self._changed.notify_all()

    def require(self, role: str, number: int, attempt: int) -> None:
        """Require that a task which requests or reports something is a member.

        Raises:
            LostError: it has been replaced, or all tasks end: what it has learned may have been lost with another one.
        """
        with self._changed:
            if self._over:
                raise LostError(f"All tasks end; {role} {number} asks for work, or reports, after that.")
            if self._member(role, number, attempt) is None:
                raise replaced(role, number, attempt)

    def wait(self, seconds: float) -> None:
        """Wait until a task joins, is ready, leaves or fails, no longer than `seconds`."""
        with self._changed:
            self._changed.wait(seconds)

    def end(self) -> None:
        """Make all tasks end."""
        with self._changed:
            self._ended = True
            self._end_all()

    def dispersed(self, seconds: float) -> bool:
        """Wait until all tasks that took part have left or are lost, no longer than `seconds`; return whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: all(member.left for member in self._members.values()), seconds)

    def _join(self, join: Join) -> Joined:
        check_names("the role of a task", [join.role], (), self._numbers)
        check_within(f"the number of a {join.role}", join.number, self._numbers[join.role])
        check_within("the attempt of a task", join.attempt, COUNT)
        who = (join.role, join.number)
        while True:  # once more after a loss: another attempt may have joined while it was reported
            with self._changed:
                before = self._members.get(who)
                if self._over or (before is not None and before.done):
                    return Joined(accepted=False, ended=True)
                if before is not None and join.attempt < before.attempt:
                    return Joined(accepted=False, replaced=True)
                if before is not None and not before.reported:
                    return Joined(accepted=False)
                if before is None or before.left or join.attempt == before.attempt:
                    self._members[who] = Member(join)
                    self._changed.notify_all()
                    return Joined(accepted=True)
                if age(before) < REPLACED_SECONDS:
                    return Joined(accepted=False)
            self._lose(who, "its process or machine is gone")

    def _ready(self, ready: Ready) -> Acknowledged:
        check_within("the port of a shard", ready.address.port, PORTS)
        with self._changed:
            member = self._member(ready.role, ready.number, ready.attempt)
            if member is not None:
                member.address = ready.address
            self._changed.notify_all()
        return Acknowledged()

    def _beat(self, beat: Heartbeat) -> HeartbeatAnswer:
        with self._changed:
            member = self._member(beat.role, beat.number, beat.attempt)
            if member is None:
                return HeartbeatAnswer(True)
            member.seen = time.monotonic()
            self._server.when_closed(functools.partial(self._closed, beat))
        member.over.wait(BEAT_SECONDS)
        with self._changed:
            member.seen = time.monotonic()
            return HeartbeatAnswer(self._over or member.left)

    def _closed(self, beat: Heartbeat) -> None:
        """Give up a task whose connection is closed though it has not left: its process is gone, or cannot be reached."""
        with self._changed:
            lost = self._member(*beat) is not None
        if lost:
            self._lose((beat.role, beat.number), "its connection is gone")

    @property
    def _over(self) -> bool:
        return self._ended or self._error is not None

    def _fail(self, error: XpsqlError) -> None:
        self._error = self._error or error
        self._end_all()

    def _end_all(self) -> None:
        for member in self._members.values():
            member.over.set()
        self._changed.notify_all()

    def _member(self, role: str, number: int, attempt: int) -> Member | None:
        """Return a member; None where it has left or is replaced."""
        member = self._members.get((role, number))
        return member if member is not None and member.attempt == attempt and not member.left else None

    def _leave(self, leave: Leave) -> Left:
        with self._changed:
            member = self._member(leave.role, leave.number, leave.attempt)
            if member is None:
                return Left(self._over)
            error = error_of(leave.failure) if leave.failure is not None else None
            if error is not None and not isinstance(error, LostError):
                self._fail(error)
            if not isinstance(error, LostError):
                member.done = error is None
                member.leave()
            self._changed.notify_all()
        if isinstance(error, LostError):
            self._lose((leave.role, leave.number), str(error))
        else:
            self._on_left(leave.role, leave.number)
        return Left(self._over)

    def _lose(self, who: tuple[str, int], why: str) -> None:
        """Give a task up for lost: a worker, where another attempt may go on for it, or else the job."""
        role, number = who
        with self._changed:
            member = self._members.get(who)
            if member is None or member.left:
                return
            member.leave()
            over, tell = self._over, self._on_lost if role == "worker" else None
            if tell is None and not over:
                self._fail(lost(who, member.place, why))
            member.reported = tell is None or over
            self._changed.notify_all()
        if tell is not None and not member.reported:
            try:
                tell(number, f"{member.place}: {why}", age(member))
            finally:
                member.reported = True

    def _find(self, _: Find) -> ShardAddresses:
        return ShardAddresses(tuple(self.shards() or ()), self.silent())


def age(member: Member) -> float:
    return time.monotonic() - member.seen


def replaced(role: str, number: int, attempt: int) -> LostError:
    return LostError(f"Attempt {attempt} of {role} {number} was given up for lost, and is replaced.")


def lost(who: tuple[str, int], place: str, why: str) -> LostError:
    role, number = who
    return LostError(f"Lost {role} {number}, {place}: {why}. The executor's log may say more; memory is the usual reason.")
