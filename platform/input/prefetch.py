"""Prefetching: running iterators ahead of their consumer, in threads, through bounded queues."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from ..stacks import roomy

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
LEAST, MOST = 2, 64
Make = Callable[[], Generator[T, None, None]]


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

    def __init__(self, make: Make[T], depth: int | None, least: int = LEAST) -> None:
        self.depth = depth or min(max(least, LEAST), MOST)
        self._tuned = depth is None
        self._entries: deque[QueueEntry[T]] = deque()
        self._changed = threading.Condition()
        self._was_full = self._stopped = False
        self._make = make
        self._thread = threading.Thread(target=roomy(self._run), name="xpsql-read-ahead", daemon=True)

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


class Lane(Generic[T]):
    """What one iterator of several has yielded, until it is taken."""

    def __init__(self) -> None:
        self.entries: deque[T] = deque()
        self.over = False
        self.error: BaseException | None = None


class Abreast(Generic[T]):
    """Iterates over what several iterators yield, one after the other, each of them run ahead on one of several threads. An
    error reaches the consumer in its place.

    Use as a context manager: leaving it stops the threads, also in the middle.

    Args:
        make: yields what makes the iterators; one thread at a time asks for the next.
        threads: at most one iterator more than these is begun and not taken to its end.
        depth: so many items of an iterator wait at most.
    """

    def __init__(self, make: Make[Make[T]], threads: int, depth: int) -> None:
        self._make, self._depth, self._most = make, depth, threads + 1
        self._lanes: deque[Lane[T]] = deque()
        self._lock, self._taking = threading.Lock(), threading.Lock()
        self._filled, self._room = threading.Condition(self._lock), threading.Condition(self._lock)
        self._over = self._stopped = False
        names = [f"xpsql-read-ahead-{number}" for number in range(threads)]
        run = roomy(self._run)
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for name in names]

    def __enter__(self) -> Self:
        self._iterators = self._make()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._stopped = True
            self._room.notify_all()
        for thread in self._threads:
            thread.join()
        self._iterators.close()

    @property
    def ready(self) -> bool:
        """See Coming."""
        with self._lock:
            return self._next_lane() is not None or self._ended

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        with self._lock:
            while (lane := self._next_lane()) is None:
                if self._ended:
                    raise StopIteration
                self._filled.wait()
            if not lane.entries:
                assert lane.error is not None
                raise lane.error
            item = lane.entries.popleft()
            if len(lane.entries) == self._depth // 2:  # waking a thread for each place costs more than some batches
                self._room.notify_all()
            return item

    @property
    def _ended(self) -> bool:
        return self._over and not self._lanes

    def _next_lane(self) -> Lane[T] | None:
        """Return the lane that has the next item, or the error in its place; None where it is not there yet."""
        while self._lanes and self._lanes[0].over and not self._lanes[0].entries and self._lanes[0].error is None:
            self._lanes.popleft()
            self._room.notify_all()
        lane = self._lanes[0] if self._lanes else None
        return lane if lane is not None and (lane.entries or lane.error is not None) else None

    def _run(self) -> None:
        while (begun := self._begin()) is not None:
            lane, make = begun
            try:
                with closing(make()) as iterator:
                    for item in iterator:
                        if not self._put(lane, item):
                            break
                self._end(lane, None)
            except BaseException as error:  # handed over: raised where the consumer iterates
                self._end(lane, error)

    def _begin(self) -> tuple[Lane[T], Make[T]] | None:
        """Take the next iterator, once there is room for it; None when there are no more."""
        with self._taking:
            with self._lock:
                self._room.wait_for(lambda: self._stopped or self._over or len(self._lanes) < self._most)
                if self._stopped or self._over:
                    return None
            lane: Lane[T] = Lane()
            try:
                make = next(self._iterators, None)
            except BaseException as error:  # handed over
                with self._lock:
                    self._lanes.append(lane)
                self._end(lane, error)
                return None
            with self._lock:
                if make is None:
                    self._over = True
                    self._filled.notify()
                    return None
                self._lanes.append(lane)
        return lane, make

    def _end(self, lane: Lane[T], error: BaseException | None) -> None:
        with self._lock:
            lane.over, lane.error = True, error
            self._over = self._over or error is not None
            self._filled.notify()
            self._room.notify_all()

    def _put(self, lane: Lane[T], item: T) -> bool:
        """Wait for a place in a lane; False when the consumer has left."""
        with self._lock:
            self._room.wait_for(lambda: self._stopped or len(lane.entries) < self._depth)
            lane.entries.append(item)
            if lane is self._lanes[0]:
                self._filled.notify()
            return not self._stopped
