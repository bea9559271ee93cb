"""What makes batches for a worker: on a core of its own, or on the worker's while that waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Encoder:
    """Makes batches ahead of a worker.

    Args:
        cost: seconds of a batch.
        beside: it has a core of its own.
        most: batches that it is ahead, at most.
        note: takes when its own core was at work.
    """

    def __init__(self, cost: float, beside: bool, most: int, note: Callable[[float, float], None]) -> None:
        self._cost, self._beside, self._most, self._note = cost, beside, most, note
        self._ahead = 0.0  # seconds of work done, where it has the worker's core
        self._next = cost  # when the next batch is there, where it has its own
        self._taken = deque[float](maxlen=most)
        if beside:
            note(0.0, cost)

    def ready(self, time: float) -> bool:
        """Return whether a batch can be taken without a wait."""
        return self._next <= time if self._beside else self._ahead >= self._cost

    def waited(self, time: float, until: float) -> float:
        """Return when a worker's wait is over, in which it may work."""
        if not self._beside and until > time:
            self._ahead = min(self._ahead + until - time, self._most * self._cost)
        return max(time, until)

    def taken(self, time: float) -> float:
        """Return when the worker has its next batch."""
        if not self._beside:
            missing = max(0.0, self._cost - self._ahead)
            self._ahead = max(0.0, self._ahead - self._cost)
            return time + missing
        time = max(time, self._next)
        self._taken.append(time)
        start = max(self._next, self._taken[0]) if len(self._taken) == self._most else self._next
        self._next = start + self._cost
        self._note(start, self._next)
        return time
