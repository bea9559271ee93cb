"""Shards and workers on the tasks of an engine, from start to end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...engines.tasks import Running, Task, Tasks
from ...errors import CancelledError, LostError, TrainingError
from ...ps.transport.base import ShardsClient, Transport
from ...ps.transport.sockets import Address
from ...ps.transport.tls import Certificate, make_certificate
from ...ps.transport.wire import Handler
from ..parallelism import Places
from .coordinator import Coordinator, Lost
from .messages import Contact
from .reach import client_of_shards

POLL_SECONDS = 0.05
START_SECONDS = 600.0
END_SECONDS = 10.0
LEAVE_SECONDS = 2.0
SETTLE_SECONDS = 0.5


class Cluster:
    """The tasks of one job. Leaving `cluster` ends them all, whatever happens.

    Attributes:
        coordinator: where they meet.
        contact: how they reach the driver and each other.
        certificate: with the private key, for those that serve; None without TLS.
    """

    def __init__(self, tasks: Tasks, coordinator: Coordinator, certificate: Certificate | None) -> None:
        self.contact: Contact = coordinator.contact
        self.certificate = certificate
        self._tasks = tasks
        self.coordinator = coordinator
        self._shards: Running | None = None
        self._workers: Running | None = None
        self._started: list[Running] = []

    def start_shards(self, function: Callable[[Task], None], count: int) -> None:
        """Start tasks that serve."""
        self._shards = self._start(function, count, f"xpsql: shards of {self.contact.job}", False)

    def start_workers(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> None:
        """Start tasks that work with the shards; they may start beside those, and wait for them."""
        self._workers = self._start(function, count, name, gang)

    def addresses(self) -> list[Address]:
        """Return the addresses of the shards when all serve.

        Raises:
            TrainingError: they do not within ten minutes.
            XpsqlError: of the first task that failed.
        """
        assert self._shards is not None  # they are started
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            addresses = self.coordinator.shards()
            if addresses is not None:
                return addresses
            if self._over(self._shards, "shard"):
                break
            self.coordinator.wait(POLL_SECONDS)
        raise self._late("shards")

    def dial_shards(self, addresses: Sequence[Address], seconds: float) -> ShardsClient:
        """Return the driver's client of shards that all serve, whose answers may take so many seconds.

        Raises:
            TrainingError: one that lives cannot be reached from here.
            XpsqlError: of the first task that failed.
        """

        def silent() -> float:
            self.coordinator.check()
            return self.coordinator.silent()

        return client_of_shards(self.contact, "The driver", addresses, seconds, silent)

    def wait_for_workers(self) -> None:
        """Wait until all workers have ended.

        Raises:
            TrainingError: none has started within ten minutes; jobs that wait for each other's cores would do so for ever.
            XpsqlError: of the first task that failed, a shard's too; the others are ended.
            LostError: tasks are lost, and the engine does not start them again.
        """
        assert self._shards is not None  # both are started
        assert self._workers is not None
        deadline = time.monotonic() + START_SECONDS
        with self._ending(self._workers):
            while not self._over(self._workers, "worker"):
                if time.monotonic() > deadline and not self.coordinator.joined("worker"):
                    raise self._late("workers")
                if self._over(self._shards, "shard"):
                    raise LostError(f"The shards of {self.contact.job} ended before its workers.")
                self.coordinator.wait(POLL_SECONDS)

    @contextmanager
    def working(self, function: Callable[[Task], None], count: int, name: str) -> Iterator[Callable[[], bool]]:
        """Run tasks that all start together for the length of a block; yield a function that returns whether they have ended.

        Raises:
            XpsqlError: from that function, of the first task that failed.
            LostError: the same, where a task is lost.
        """
        workers = self._start(function, count, name, True)
        with self._ending(workers):
            yield lambda: self._over(workers, "worker")

    def end(self) -> None:
        """Let the shards end by themselves."""
        self.coordinator.end()
        if self._shards is not None:
            self._shards.wait(END_SECONDS)

    def close(self) -> None:
        """End all tasks.

        They are asked to end, and have a moment to leave by themselves: an engine may reuse a process whose task has ended
        well, which is much faster than starting one. What still runs then is ended by the engine.
        """
        self.coordinator.end()
        self.coordinator.dispersed(LEAVE_SECONDS)
        for running in self._started:
            with contextlib.suppress(TrainingError):  # what went wrong is raised where they are waited for
                running.wait(SETTLE_SECONDS)
            running.cancel()

    @contextmanager
    def _ending(self, workers: Running) -> Iterator[None]:
        """End tasks with a block; where the whole job ends by an error, they end with it."""
        try:
            yield
        finally:
            if not self.coordinator.failed:
                workers.cancel()

    def _start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        self._started.append(self._tasks.start(function, count, name, gang))
        return self._started[-1]

    def _late(self, what: str) -> TrainingError:
        return TrainingError(
            f"The {what} of {self.contact.job} have not started within {START_SECONDS:.0f} s. The messages of "
            f"{self._tasks.words.engine} say why; other jobs may hold its cores. Wait for their end. "
            f"{self._tasks.words.more_cores}."
        )

    def _over(self, running: Running, role: str) -> bool:
        """Return whether tasks have ended; raise what went wrong, as a task reported it or else as the engine saw it.

        Tasks that ran our code and ended without a report are lost, unless they were cancelled; so are tasks that the engine
        reports as lost before any has joined. Other tasks that never joined could not start.
        """
        try:
            over = running.wait(0)
        except TrainingError as error:
            self.coordinator.check()
            joined = self.coordinator.joined(role) and not isinstance(error, CancelledError)
            lost = joined or isinstance(error, LostError)
            found = LostError(f"Lost {role}s: {error}") if lost else error
            if role == "shard":
                self.coordinator.fail(found)
            raise found from error
        self.coordinator.check()
        return over


def wait_until(changed: threading.Condition, ready: Callable[[], bool], check: Callable[[], object]) -> None:
    """Wait until a condition holds.

    Args:
        changed: is notified when the condition may have changed.
        check: raises what went wrong with a task.
    """
    while True:
        with changed:
            if changed.wait_for(ready, POLL_SECONDS):
                return
        check()


@contextmanager
def cluster(
    tasks: Tasks,
    job: str,
    places: Places,
    handlers: Sequence[Handler[Any, Any]],
    left: Callable[[str, int], None],
    lost: Lost | None,
    encrypt: bool,
    transport: Transport,
) -> Iterator[Cluster]:
    """Give a cluster for a job.

    Args:
        job: for messages and the engine's pages, "ctr v3".
        places: how many tasks will take part.
        handlers: how the driver answers the requests and reports of tasks.
        left, lost: see Coordinator.
        encrypt: use TLS, with a certificate made for the job.
        transport: how its ends reach each other; the job's contact takes it to the tasks.

    Raises:
        StatementError: no certificate can be made; nothing has started.
    """
    certificate = make_certificate() if encrypt else None
    with Coordinator(job, *places, tasks.host, handlers, left, lost, certificate, transport) as coordinator:
        made = Cluster(tasks, coordinator, certificate)
        try:
            yield made
        finally:
            made.close()
