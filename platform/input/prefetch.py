"""Prefetching: running an iterator ahead of its consumer, in a thread, through a bounded queue."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
LEAST, MOST = 2, 64


class Coming(Protocol[T_co]):
    """An iterator that knows whether its next item is ready.

    Attributes:
        ready: whether the next item, or the end, can be taken without a wait.
    """

    @property
    def ready(self) -> bool: ...

    def __iter__(self) -> Self: ...

    def __next__(self) -> T_co: ...


class QueueEntry(NamedTuple, Generic[T]):
    """An entry of the queue: an item, or how the iterator ended."""

    item: T | None
    error: BaseException | None = None
    last: bool = False


class Ahead(Generic[T]):
    """Iterates over what `make()` yields, up to `depth` items ahead. An error reaches the consumer where it iterates.

    Use as a context manager: leaving it stops the thread, also in the middle.

    Args:
        depth: None: it tunes itself. It doubles, from `least` to 64, when the consumer finds no item though the queue was
            full before: then a longer one would have bridged the gap. Where the thread is simply slower, it is never full.
        least: what it begins with, if it tunes itself.

    Attributes:
        depth: as it is now.
    """

    def __init__(self, make: Callable[[], Generator[T, None, None]], depth: int | None, least: int = LEAST) -> None:
        self.depth = depth or min(max(least, LEAST), MOST)
        self._tuned = depth is None
        self._entries: deque[QueueEntry[T]] = deque()
        self._changed = threading.Condition()
        self._was_full = self._stopped = False
        self._make = make
        self._thread = threading.Thread(target=self._run, name="xpsql-read-ahead", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    @property
    def ready(self) -> bool:
        """See Coming."""
        return bool(self._entries)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        entry = self._take()
        if entry.error is not None:
            raise entry.error
        if entry.last:
            self._entries.append(entry)
            raise StopIteration
        return entry.item  # type: ignore[return-value]

    def _take(self) -> QueueEntry[T]:
        with self._changed:
            if not self._entries:
                self._starve()
            while not self._entries:
                self._changed.wait()
            entry = self._entries.popleft()
            if len(self._entries) <= self.depth // 2:  # waking the thread for each place costs more than some batches
                self._changed.notify()
        return entry

    def _starve(self) -> None:
        """Note that the consumer found the queue empty."""
        if self._tuned and self._was_full:
            self.depth, self._was_full = min(2 * self.depth, MOST), False

    def _run(self) -> None:
        try:
            iterator = self._make()
            with closing(iterator):
                for item in iterator:
                    if not self._put(QueueEntry(item)):
                        return
            self._put(QueueEntry(None, last=True))
        except BaseException as error:  # handed over: raised where the consumer iterates
            self._put(QueueEntry(None, error))

    def _put(self, entry: QueueEntry[T]) -> bool:
        """Wait for a place in the queue; False when the consumer has left."""
        with self._changed:
            while len(self._entries) >= self.depth and not self._stopped:
                self._changed.wait()
            self._entries.append(entry)
            self._was_full = self._was_full or len(self._entries) == self.depth
            self._changed.notify()
            return not self._stopped
