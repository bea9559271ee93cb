"""A task's membership in a job: joining, heartbeats and leaving; see coordinator.py."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from types import TracebackType
from typing import NoReturn, Self, TypeVar

from ...errors import LostError, TrainingError, XpsqlError
from ...ps.transport.base import CallLink, ShardsClient
from ...ps.transport.sockets import Address
from ...ps.transport.wire import Method, failure_of
from .coordinator import BEAT_SECONDS, LOST_SECONDS, replaced
from .messages import BEAT, FIND, JOIN, LEAVE, READY, Contact, Find, Heartbeat, Join, Leave, Ready
from .reach import client_of_shards, link_to_driver

CALL_SECONDS = 60.0

Q = TypeVar("Q")
A = TypeVar("A")


class Membership:
    """A task's side; a context manager. Leaving it by an error fails the job with it.

    When all tasks end, any lost connection of this task becomes EndedError, so that the engine does not start it again. A task
    that ends by EndedError while the others go on is lost, which only its missing heartbeats show.

    Args:
        contact: of the job.
        role: "shard" or "worker".
        number: of the task.
        attempt: 0 for the first; a later one waits for as long as one before it lives.

    Attributes:
        ended: set when the task must end: it was asked to, or the driver is gone.

    Raises:
        TrainingError: the driver cannot be reached.
        LostError: it does not answer; or, where its block begins, a later attempt has taken its place.
        EndedError: where its block begins or ends: all tasks end. Where it begins: another attempt has done the work.
    """

    def __init__(self, contact: Contact, role: str, number: int, attempt: int) -> None:
        self.ended = threading.Event()
        self._contact = contact
        self._who = (role, number, attempt)
        self._lock = threading.Lock()
        self._connection: CallLink = link_to_driver(contact)
        self._beats = threading.Thread(target=self._beat, name=f"xpsql {role} {number} beats", daemon=True)
        self._left = threading.Event()

    def __enter__(self) -> Self:
        join = Join(*self._who, socket.gethostname(), os.getpid())
        try:
            while not (joined := self.call(JOIN, join, CALL_SECONDS)).accepted:
                if joined.ended:
                    raise EndedError
                if joined.replaced:
                    raise replaced(*self._who)
                time.sleep(BEAT_SECONDS)
        except BaseException:
            self._connection.close()
            raise
        self._beats.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        reason = LostError("its heartbeats are answered no more") if isinstance(error, EndedError) else error
        failure = None if reason is None else failure_of(reason, "{} {}".format(*self._who))
        try:
            ended = self.call(LEAVE, Leave(*self._who, failure), CALL_SECONDS).ended
        except TrainingError:
            if not self.ended.is_set():
                raise
            ended = True  # the driver is gone
        finally:
            self._left.set()  # only now: a heartbeat connection that closes earlier means that the process is gone
            self._connection.close()
            self._beats.join()
        if ended and isinstance(error, LostError):
            raise EndedError from error
        if not ended and isinstance(error, EndedError):
            raise replaced(*self._who) from error

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

    def dial_shards(self, wait_seconds: float, seconds: float) -> ShardsClient:
        """Return a client of all shards, whose answers may take so many seconds, when they have joined.

        Raises:
            TrainingError: see `shards`; or one that lives cannot be reached from here.
            LostError: a shard does not answer.
            EndedError: the task must end.
        """
        role, number, _ = self._who
        who = f"{role.capitalize()} {number}"
        return client_of_shards(self._contact, who, self.shards(wait_seconds), seconds, self._silent)

    def _silent(self) -> float:
        if self.ended.is_set():
            raise EndedError
        return self.call(FIND, Find(), CALL_SECONDS).silent

    def ready(self, address: Address) -> None:
        """Report that the task is ready, and where a shard's server listens."""
        self.call(READY, Ready(*self._who, address), CALL_SECONDS)

    def stay(self) -> NoReturn:
        """Wait for as long as the job needs the task.

        Raises:
            EndedError: the task must end.
        """
        self.ended.wait()
        raise EndedError

    def call(self, call: Method[Q, A], request: Q, seconds: float) -> A:
        """Make a call of the coordinator, from any thread.

        Raises:
            XpsqlError: the coordinator's, or it is lost or does not answer in time.
        """
        with self._lock:
            return self._connection.call(call, request, seconds)

    def _beat(self) -> None:
        """Send heartbeats until the task leaves; notice when it must end."""
        beat = Heartbeat(*self._who)
        with contextlib.suppress(XpsqlError), contextlib.closing(self._contact.dial()) as connection:  # the driver may be gone
            while not self._left.is_set():
                if connection.call(BEAT, beat, LOST_SECONDS).ended:
                    self.ended.set()
                    self._left.wait()  # the driver sees by the connection whether the process lives
        if not self._left.is_set():
            self.ended.set()


class EndedError(Exception):
    """The task must end: the driver said so, or is gone. To end by it is no failure of the task."""
