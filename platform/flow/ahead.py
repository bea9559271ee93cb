"""Running an iterator ahead of its consumer, in a thread, through a bounded queue."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Generic, TypeVar

T = TypeVar("T")
WAIT_SECONDS = 0.2


class Ahead(Generic[T]):
    """Iterates over what `make()` yields, up to `depth` items ahead. An error reaches the consumer where it iterates.

    Use as a context manager: leaving it stops the thread, also in the middle.
    """

    def __init__(self, make: Callable[[], Generator[T, None, None]], depth: int) -> None:
        self._queue: queue.Queue[tuple[T | None, BaseException | None, bool]] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._make = make
        self._thread = threading.Thread(target=self._run, name="xpsql-read-ahead", daemon=True)

    def __enter__(self) -> Iterator[T]:
        self._thread.start()
        return self._items()

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _items(self) -> Iterator[T]:
        while True:
            item, error, last = self._queue.get()
            if error is not None:
                raise error
            if last:
                return
            yield item  # type: ignore[misc]

    def _run(self) -> None:
        try:
            iterator = self._make()
            with closing(iterator):
                for item in iterator:
                    if not self._put((item, None, False)):
                        return
            self._put((None, None, True))
        except BaseException as error:  # handed over: raised where the consumer iterates
            self._put((None, error, False))

    def _put(self, entry: tuple[T | None, BaseException | None, bool]) -> bool:
        """Wait for a place in the queue; False when the consumer has left."""
        while not self._stopped.is_set():
            try:
                self._queue.put(entry, timeout=WAIT_SECONDS)
                return True
            except queue.Full:
                continue
        return False
