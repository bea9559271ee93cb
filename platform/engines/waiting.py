"""Waiting for DuckDB so that Ctrl-C ends what it runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
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
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(run)
        try:
            return running.result()
        except KeyboardInterrupt:
            while not wait([running], ASK_SECONDS).done:
                connection.interrupt()  # nothing happens where the query has not begun
            raise
