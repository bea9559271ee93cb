"""Waiting for queries so that Ctrl-C ends them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Protocol, TypeVar

T = TypeVar("T")
ASK_SECONDS = 0.1


class Interruptible(Protocol):
    """What runs queries that another thread can end: a connection of DuckDB, or jobs of Spark."""

    def interrupt(self) -> None:
        """End what runs; nothing happens where nothing does."""
        ...


def awaited(connection: Interruptible, run: Callable[[], T], thread: Callable[..., Thread] = Thread) -> T:
    """Return what `run` does with a connection, in a thread of its own: Python raises KeyboardInterrupt where it waits, not in
    native code.

    Raises:
        KeyboardInterrupt: once the connection's query has ended.
    """
    answer: Future[T] = Future()

    def work() -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(run())
        except BaseException as error:
            answer.set_exception(error)

    try:
        thread(target=work).start()  # not an executor's: it would lose a thread that Ctrl-C finds starting
        return answer.result()
    except KeyboardInterrupt:
        answer.cancel()
        while not answer.done():
            connection.interrupt()  # nothing happens where the query has not begun
            wait([answer], ASK_SECONDS)
        raise
