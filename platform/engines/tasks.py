"""Tasks: an engine that spans machines runs our own code in them, beside queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol


class Task(NamedTuple):
    """One of the tasks that run a function together.

    Attributes:
        number: from 0.
        attempt: 0 for the first; greater where the engine starts a task again, or another copy of it.
        cores: that it may use.
    """

    number: int
    attempt: int
    cores: int


class TaskWords(NamedTuple):
    """What messages say of an engine's tasks.

    Attributes:
        engine: its name.
        memory: which memory it grants one.
        more_cores, more_memory: what a user does to have room for more, or for larger ones; sentences without a full stop.
    """

    engine: str
    memory: str
    more_cores: str
    more_memory: str


class Running(Protocol):
    """Tasks under way. They end when their functions return, when they are cancelled, or with the session."""

    def wait(self, seconds: float) -> bool:
        """Wait for all tasks to end; return whether they have.

        Raises:
            TrainingError: a task failed for good, or could not start; with its message.
            LostError: a task's process, machine or connection is gone; its code did not fail.
            CancelledError: another party cancelled them.
        """
        ...

    def cancel(self) -> None:
        """End the tasks that still run; returns at once, and is harmless where none does."""
        ...


class Room(Protocol):
    """How many tasks an engine has room for.

    Attributes:
        words: the engine's, for messages.
    """

    words: TaskWords

    def slots(self, wanted: int, gang: bool) -> int:
        """Return how many tasks can run at once when the engine has all machines that it may take.

        Where they are fewer than wanted, it waits a little for machines that are still coming.

        Args:
            gang: some of them must start together.

        Raises:
            StatementError: the engine starts no tasks together.
        """
        ...


class Tasks(Room, Protocol):
    """Starts tasks on an engine's machines."""

    @property
    def host(self) -> str:
        """The name or number under which tasks reach this process.

        Raises:
            NotAvailableError: they do not reach it.
        """
        ...

    def memory_bytes(self) -> int | None:
        """Return how much memory the engine grants the Python code of one task; None where nothing limits it but the machine.

        Rows live outside of the JVM's heap, so this is the memory beside it.

        Raises:
            StatementError: it is less than our code takes without rows.
        """
        ...

    def start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        """Run a function in `count` tasks, under a name that the engine shows.

        Args:
            function: travels to the tasks by pickle; all of ours is importable there.
            gang: all tasks start together or none does.
        """
        ...


def unshared(folder: Path, hosts: str) -> str:
    """Return the message about a folder of the driver that other hosts do not see."""
    return (
        f"Executors do not see {folder} as the driver does, on {hosts}. A warehouse is a folder that the driver and all "
        "executors share: choose one on a filesystem of the network, at the same path everywhere."
    )
