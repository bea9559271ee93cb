"""What the engine asks of a Spark application beside queries: jobs of our own code, tags, and how large it is.

A session of Spark Connect answers other calls than one of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from ..tasks import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[[], None]


class Application(Protocol):
    """The application of a session.

    Attributes:
        spark: the session.
        master: where it runs, as Spark names it; empty where the session does not tell.
    """

    spark: SparkSession
    master: str

    def ended(self) -> bool:
        """Return whether it was stopped, or nobody answers."""
        ...

    def host(self) -> str:
        """Return an address of this process that tasks reach.

        Raises:
            NotAvailableError: there is none.
        """
        ...

    def parallelism(self) -> int:
        """Return how many tasks it runs at once, now."""
        ...

    def begin(self, work: Work, tag: str, name: str | None = None) -> None:
        """Run work in a thread of its own, whose jobs have a tag beside the tags and properties of the caller's.

        Args:
            name: of the jobs, for Spark's UI; None: what it is.
        """
        ...

    def cancel(self, tag: str) -> None:
        """End the jobs that have a tag."""
        ...

    def tasks(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Work:
        """Return what runs a function in tasks, and ends when all have.

        Args:
            gang: all of them start together.
        """
        ...

    def everywhere(self, found: Callable[[], Iterator[str]]) -> list[str]:
        """Run a function in as many tasks as run at once, and return what they yield."""
        ...

    def described(self, text: str) -> AbstractContextManager[None]:
        """Name the jobs of the block in Spark's UI, where nothing names them yet."""
        ...

    def active(self) -> AbstractContextManager[None]:
        """Let the session's settings hold for what this thread asks in the block."""
        ...

    def plan(self, frame: DataFrame) -> str:
        """Return Spark's optimized plan of a query."""
        ...
