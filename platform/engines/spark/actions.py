"""Waiting for Spark so that Ctrl-C ends the jobs of a statement, which otherwise go on, and write where the next one does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from ..waiting import awaited, held
from .plans import active
from .start import check_running

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
P = ParamSpec("P")


class OnSpark(Protocol):
    """An object with a session of Spark."""

    spark: SparkSession


S = TypeVar("S", bound=OnSpark)


@dataclass(frozen=True)
class Tagged:
    """The jobs of an application that have a tag."""

    context: SparkContext
    tag: str

    def interrupt(self) -> None:
        """Cancel them."""
        with held():
            self.context.cancelJobsWithTag(self.tag)


def interruptible(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Let a method run in a thread of its own, with the job group and other properties of the caller's.

    Ctrl-C then finds the caller waiting in Python, not for an answer of the JVM: PySpark cancels no job there, and gives that
    answer to whatever it is asked next.

    Raises:
        KeyboardInterrupt: at Ctrl-C, once the jobs that the method began have ended.
        XpsqlError: see check_running.
    """

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        from pyspark import InheritableThread

        with held():
            check_running(self.spark)
        jobs = Tagged(self.spark.sparkContext, f"xpsql-{uuid.uuid4().hex}")

        def tagged() -> T:
            jobs.context.addJobTag(jobs.tag)
            with active(self.spark):
                return method(self, *args, **kwargs)

        def start(work: Callable[[], None]) -> None:
            with held():
                tags = {"session": self.spark} if "session" in signature(InheritableThread).parameters else {}  # not Spark 3
                InheritableThread(work, **tags).start()

        return awaited(jobs, tagged, start)

    return run
