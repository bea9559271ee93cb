"""Waiting for queries so that Ctrl-C ends them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from typing import Protocol, TypeVar

T = TypeVar("T")
ASK_SECONDS = 0.1


class Interruptible(Protocol):
    """Runs queries that another thread can interrupt: a connection of DuckDB, or jobs of Spark."""

    def interrupt(self) -> None:
        """Interrupt the running query, if any."""
        ...


def started(work: Callable[[], None]) -> None:
    """Start a thread."""
    Thread(target=work).start()  # not an executor's: it would lose a thread that Ctrl-C finds starting


def awaited(connection: Interruptible, run: Callable[[], T], start: Callable[[Callable[[], None]], None] = started) -> T:
    """Return what `run` returns for a connection, in a separate thread: Python raises KeyboardInterrupt where it waits, not in
    native code.

    Args:
        start: starts a thread that runs a function.

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
        start(work)
        return answer.result()
    except KeyboardInterrupt:
        answer.cancel()
        while not answer.done():
            connection.interrupt()  # nothing happens where the query has not begun
            wait([answer], ASK_SECONDS)
        raise


@contextmanager
def held() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the block ends: a thread that they take from the JVM gets no right answer of the JVM
    afterwards."""
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []
    before = {number: handler for number in (signal.SIGINT, signal.SIGTERM) if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            before[signal.Signals(came[0])](came[0], None)
