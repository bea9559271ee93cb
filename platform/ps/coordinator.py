"""Where the driver and the tasks of one job meet: who takes part, where the shards are, who failed, and when to end.

The driver holds a Coordinator, each task a Membership. A task joins, tells that it lives once a second, and ends when it is
told to, or when the driver is gone; so nothing outlives a driver that dies.

    with Coordinator("ctr v3", num_shards=2, host=tasks.host, handlers, left) as coordinator:
        ...                                         # start tasks with coordinator.contact
        while (addresses := coordinator.shards()) is None:
            coordinator.check()
            coordinator.wait(1)

    with Membership(contact, "shard", number, attempt) as member:   # in a task
        member.ready(server.address)
        member.ended.wait()
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from ..errors import TrainingError, XpsqlError
from .connection import Connection
from .server import Server
from .sockets import Address
from .wire import Acknowledged, Call, Failure, Handler, Limits, error_of, failure_of

BEAT_SECONDS = 1.0
LOST_SECONDS = 30.0
REPLACED_SECONDS = 5.0
CALL_SECONDS = 60.0
SECRET_BYTES = 32
NOWHERE = Address("", 0)

Q = TypeVar("Q")
A = TypeVar("A")


class Contact(NamedTuple):
    """How tasks reach the driver and each other; travels with the task's function.

    Attributes:
        job: for messages, "ctr v3".
        address: of the coordinator.
        secret: of the job.
    """

    job: str
    address: Address
    secret: bytes


class Join(NamedTuple):
    """A task that begins.

    Attributes:
        role: "shard" or "worker".
        number: of the task among those of its role.
        attempt: 0 for the first.
    """

    role: str
    number: int
    attempt: int


class Joined(NamedTuple):
    """Whether the task takes part; if not, and the job has not ended, an attempt before it lives: ask again."""

    accepted: bool
    ended: bool


class Ready(NamedTuple):
    """A task can be worked with; a shard's server listens at its address."""

    role: str
    number: int
    address: Address


class Beat(NamedTuple):
    """A task lives; the answer comes after a second, or when the task must end."""

    role: str
    number: int


class Beaten(NamedTuple):
    """Whether the task must end."""

    ended: bool


class Leave(NamedTuple):
    """A task ends, well or with an error."""

    role: str
    number: int
    failure: Failure | None


class Find(NamedTuple):
    """A request for the addresses of all shards."""


class Found(NamedTuple):
    """The addresses of all shards, in order; nothing until all are ready."""

    shards: tuple[Address, ...]


JOIN = Call("join", Join, Joined)
READY = Call("ready", Ready, Acknowledged)
BEAT = Call("beat", Beat, Beaten)
LEAVE = Call("leave", Leave, Acknowledged)
FIND = Call("find", Find, Found)


class Member:
    """What the coordinator knows of a task."""

    def __init__(self, join: Join) -> None:
        self.attempt = join.attempt
        self.address: Address | None = None
        self.seen = time.monotonic()
        self.left = False


class Coordinator:
    """The driver's side; a context manager.

    Args:
        job: for messages, "ctr v3".
        num_shards: that will take part.
        host: under which tasks reach this process.
        handlers: of further calls that the job's tasks make.
        left: told the role and number of each task that leaves.
    """

    def __init__(
        self,
        job: str,
        num_shards: int,
        host: str,
        handlers: Sequence[Handler[Any, Any]],
        left: Callable[[str, int], None],
    ) -> None:
        self._told_left = left
        self._members: dict[tuple[str, int], Member] = {}
        self._num_shards = num_shards
        self._ended = False
        self._error: XpsqlError | None = None
        self._changed = threading.Condition()
        own: list[Handler[Any, Any]] = [Handler(JOIN, self._join), Handler(READY, self._ready), Handler(BEAT, self._beat)]
        own += [Handler(LEAVE, self._leave), Handler(FIND, self._find)]
        secret = secrets.token_bytes(SECRET_BYTES)
        self._server = Server(f"coordinator of {job}", (*own, *handlers), secret, host)
        self.contact = Contact(job, self._server.address, secret)

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

    def check(self) -> None:
        """Raise what a task failed with.

        Raises:
            XpsqlError: of the first task that failed.
            TrainingError: a task has not been heard of for half a minute, or was started a second time; names it.
        """
        with self._changed:
            if self._error is None:
                silent = next((who for who, m in self._members.items() if not m.left and age(m) > LOST_SECONDS), None)
                if silent is not None:
                    self._error = lost(silent, f"it has not been heard of for {LOST_SECONDS:.0f} s")
            if self._error is not None:
                raise self._error

    def wait(self, seconds: float) -> None:
        """Wait until a task joins, is ready, leaves or fails, no longer than `seconds`."""
        with self._changed:
            self._changed.wait(seconds)

    def end(self) -> None:
        """Tell all tasks to end."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _join(self, join: Join) -> Joined:
        who = (join.role, join.number)
        with self._changed:
            if self._ended:
                return Joined(accepted=False, ended=True)
            before = self._members.get(who)
            if before is not None and not before.left and join.attempt != before.attempt:
                if age(before) < REPLACED_SECONDS:
                    return Joined(accepted=False, ended=False)
                self._error = self._error or lost(who, "its process or machine is gone")
            elif before is None or join.attempt != before.attempt:
                self._members[who] = Member(join)
            self._changed.notify_all()
        return Joined(accepted=True, ended=False)

    def _ready(self, ready: Ready) -> Acknowledged:
        with self._changed:
            self._members[ready.role, ready.number].address = ready.address
            self._changed.notify_all()
        return Acknowledged()

    def _beat(self, beat: Beat) -> Beaten:
        with self._changed:
            member = self._members[beat.role, beat.number]
            member.seen = time.monotonic()
            self._changed.wait_for(lambda: self._over or member.left, BEAT_SECONDS)
            member.seen = time.monotonic()
            return Beaten(self._over)

    @property
    def _over(self) -> bool:
        return self._ended or self._error is not None

    def _leave(self, leave: Leave) -> Acknowledged:
        with self._changed:
            if leave.failure is not None and self._error is None:
                self._error = error_of(leave.failure)
            self._members[leave.role, leave.number].left = True
            self._changed.notify_all()
        self._told_left(leave.role, leave.number)
        return Acknowledged()

    def _find(self, _: Find) -> Found:
        return Found(tuple(self.shards() or ()))


def age(member: Member) -> float:
    return time.monotonic() - member.seen


def lost(who: tuple[str, int], why: str) -> TrainingError:
    role, number = who
    return TrainingError(
        f"Lost {role} {number}: {why}. The training cannot go on without what it had learned. Look into the executor's log "
        "(memory is the usual reason), then run the statement again."
    )


class Membership:
    """A task's side; a context manager. Leaving it by an error fails the job with it.

    Args:
        contact: of the job.
        role: "shard" or "worker".
        number: of the task.
        attempt: 0 for the first; a later one waits for as long as one before it lives.

    Attributes:
        ended: set when the task must end: it is told to, or the driver is gone.

    Raises:
        TrainingError: the driver cannot be reached.
    """

    def __init__(self, contact: Contact, role: str, number: int, attempt: int) -> None:
        self.ended = threading.Event()
        self._contact = contact
        self._join = Join(role, number, attempt)
        self._lock = threading.Lock()
        self._connection = self._connected()
        self._beats = threading.Thread(target=self._beat, name=f"xpsql {role} {number} beats", daemon=True)
        self._left = threading.Event()

    def __enter__(self) -> Self:
        try:
            while not (joined := self.call(JOIN, self._join, CALL_SECONDS)).accepted:
                if joined.ended:
                    raise EndedError
                time.sleep(BEAT_SECONDS)
        except BaseException:
            self._connection.close()
            raise
        self._beats.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._left.set()
        told = error is None or isinstance(error, EndedError)
        failure = None if told or error is None else failure_of(error, f"{self._join.role} {self._join.number}")
        try:
            self.call(LEAVE, Leave(self._join.role, self._join.number, failure), CALL_SECONDS)
        except TrainingError:
            if not self.ended.is_set():
                raise
        finally:
            self._connection.close()
            self._beats.join()

    def shards(self, seconds: float) -> list[Address]:
        """Return the addresses of all shards, in order, when all have joined.

        Raises:
            TrainingError: they have not within `seconds`.
            EndedError: the task must end.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.call(FIND, Find(), CALL_SECONDS)
            if found.shards:
                return list(found.shards)
            if self.ended.wait(BEAT_SECONDS / 10):
                raise EndedError
        raise TrainingError(f"Not all shards of {self._contact.job} have started within {seconds:.0f} s.")

    def ready(self, address: Address = NOWHERE) -> None:
        """Tell that the task can be worked with, and where a shard's server listens."""
        self.call(READY, Ready(self._join.role, self._join.number, address), CALL_SECONDS)

    def call(self, call: Call[Q, A], request: Q, seconds: float) -> A:
        """Make a call of the coordinator, from any thread.

        Raises:
            XpsqlError: the coordinator's, or it is lost or does not answer in time.
        """
        with self._lock:
            return self._connection.call(call, request, seconds)

    def _connected(self) -> Connection:
        name = f"the coordinator of {self._contact.job}"
        return Connection(name, self._contact.address, self._contact.secret, Limits(), None)

    def _beat(self) -> None:
        """Say that the task lives until it leaves; find out when it must end."""
        beat = Beat(self._join.role, self._join.number)
        with contextlib.suppress(XpsqlError), contextlib.closing(self._connected()) as connection:  # the driver may be gone
            while not connection.call(BEAT, beat, LOST_SECONDS).ended and not self._left.is_set():
                pass
        if not self._left.is_set():
            self.ended.set()


class EndedError(Exception):
    """The task must end: the driver said so, or is gone."""
