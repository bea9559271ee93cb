"""Waiting for Spark so that Ctrl-C ends the jobs of a statement, which otherwise go on, and write where the next one does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ..waiting import awaited, held
from .application import Application
from .start import check_running

T = TypeVar("T")
P = ParamSpec("P")


class OnSpark(Protocol):
    """An object on an application of Spark."""

    application: Application


S = TypeVar("S", bound=OnSpark)


@dataclass(frozen=True)
class Tagged:
    """The jobs of an application that have a tag."""

    application: Application
    tag: str

    def interrupt(self) -> None:
        """Cancel them."""
        self.application.cancel(self.tag)


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
        with held():
            check_running(self.application)
        jobs = Tagged(self.application, f"xpsql-{uuid.uuid4().hex}")

        def work() -> T:
            with jobs.application.active():
                return method(self, *args, **kwargs)

        def start(begun: Callable[[], None]) -> None:
            with held():
                jobs.application.begin(begun, jobs.tag)

        return awaited(jobs, work, start)

    return run
