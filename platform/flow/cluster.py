"""Shards and workers on the tasks of an engine, from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..engines.tasks import Running, Task, Tasks
from ..errors import LostError, TrainingError
from ..ps.coordinator import Contact, Coordinator, Lost
from ..ps.sockets import Address
from ..ps.wire import Handler

POLL_SECONDS = 0.05
START_SECONDS = 600.0
END_SECONDS = 10.0


class Cluster:
    """The tasks of one job. Leaving `cluster` ends them all, whatever happens.

    Attributes:
        coordinator: where they meet.
        contact: how they reach the driver and each other.
    """

    def __init__(self, tasks: Tasks, coordinator: Coordinator) -> None:
        self.contact: Contact = coordinator.contact
        self._tasks = tasks
        self.coordinator = coordinator
        self._shards: Running | None = None

    def start_shards(self, function: Callable[[Task], None], count: int) -> list[Address]:
        """Start tasks that serve, and return their addresses when all do.

        Raises:
            TrainingError: they do not within ten minutes.
            XpsqlError: of the first that failed.
        """
        self._shards = self._tasks.start(function, count, f"xpsql: shards of {self.contact.job}", False)
        for _ in range(int(START_SECONDS / POLL_SECONDS)):
            addresses = self.coordinator.shards()
            if addresses is not None:
                return addresses
            if self._over(self._shards, "shard"):
                break
            self.coordinator.wait(POLL_SECONDS)
        raise TrainingError(
            f"The shards of {self.contact.job} have not started within {START_SECONDS:.0f} s. Spark's own messages say why; "
            "other jobs may hold its cores."
        )

    def run_workers(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> None:
        """Run tasks until all have ended.

        Raises:
            XpsqlError: of the first task that failed, a shard's too; the others are ended.
            LostError: tasks are lost, and the engine does not start them again.
        """
        assert self._shards is not None  # workers need shards
        workers = self._tasks.start(function, count, name, gang)
        try:
            while not self._over(workers, "worker"):
                if self._over(self._shards, "shard"):
                    raise LostError(f"The shards of {self.contact.job} ended before its workers.")
                self.coordinator.wait(POLL_SECONDS)
        finally:
            workers.cancel()

    @contextmanager
    def working(self, function: Callable[[Task], None], count: int, name: str) -> Iterator[Callable[[], bool]]:
        """Run tasks that all start together for the length of a block; give what tells whether they have ended.

        Raises:
            XpsqlError: what is given, of the first task that failed.
            LostError: the same, where a task is lost.
        """
        workers = self._tasks.start(function, count, name, True)
        try:
            yield lambda: self._over(workers, "worker")
        finally:
            workers.cancel()

    def end(self) -> None:
        """Let the shards end by themselves."""
        self.coordinator.end()
        if self._shards is not None:
            self._shards.wait(END_SECONDS)

    def cancel(self) -> None:
        """End the shards that still run."""
        if self._shards is not None:
            self._shards.cancel()

    def _over(self, running: Running, role: str) -> bool:
        """Tell whether tasks have ended; raise what went wrong, as a task told it or else as the engine saw it.

        Tasks that ran our code and ended without a word are lost; those that never did could not start.
        """
        try:
            over = running.wait(0)
        except TrainingError as error:
            self.coordinator.check()
            lost = self.coordinator.joined(role)
            found = LostError(f"Lost {role}s: {error}") if lost else error
            if role == "shard":
                self.coordinator.fail(found)
            raise found from error
        self.coordinator.check()
        return over


@contextmanager
def cluster(
    tasks: Tasks,
    job: str,
    num_shards: int,
    handlers: Sequence[Handler[Any, Any]],
    left: Callable[[str, int], None],
    lost: Lost | None,
) -> Iterator[Cluster]:
    """Give a cluster for a job.

    Args:
        job: for messages and the engine's pages, "ctr v3".
        handlers: how the driver answers what tasks ask and tell.
        left, lost: see Coordinator.
    """
    with Coordinator(job, num_shards, tasks.host, handlers, left, lost) as coordinator:
        made = Cluster(tasks, coordinator)
        try:
            yield made
        finally:
            coordinator.end()
            made.cancel()
