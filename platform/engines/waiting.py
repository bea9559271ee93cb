"""Waiting for DuckDB so that Ctrl-C ends what it runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")
ASK_SECONDS = 0.1


def awaited(connection: DuckDBPyConnection, run: Callable[[], T]) -> T:
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
        Thread(target=work).start()  # not an executor's: it would lose a thread that Ctrl-C finds starting
        return answer.result()
    except KeyboardInterrupt:
        answer.cancel()
        while not answer.done():
            connection.interrupt()  # nothing happens where the query has not begun
            wait([answer], ASK_SECONDS)
        raise
