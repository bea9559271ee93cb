"""Unauthenticated connections: few, and for a short time, so that they take nothing from authenticated ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LEAST_SECONDS = 0.2
"""What the oldest has in any case, so that many clients of a job that come at once all get through."""
REPORT_SECONDS = 1.0


class Strangers:
    """The connections of one server that have not authenticated yet; thread-safe, but one thread makes room.

    Args:
        most: at once.
        seconds: that each has.
        shut: shuts the connection of a thread, which notices and ends.
        report: logs how many have been refused since the last call, and why the last one was.
    """

    def __init__(
        self, most: int, seconds: float, shut: Callable[[threading.Thread], None], report: Callable[[int, str], None]
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._shut = shut
        self._report = report
        self._since: dict[threading.Thread, float] = {}  # the oldest first
        self._refused, self._why, self._reported = 0, "", float("-inf")
        self._changed = threading.Condition()

    def make_room(self) -> None:
        """Evict the oldest connection when the limit is reached, once it has had a moment."""
        with self._changed:
            while len(self._since) >= self._most:
                oldest, since = next(iter(self._since.items()))
                left = since + LEAST_SECONDS - time.monotonic()
                if left <= 0:
                    self._put_out(oldest, "it had not proved itself when others came")
                else:
                    self._changed.wait(left)

    def add(self, thread: threading.Thread) -> None:
        """Take in the connection that a thread will serve."""
        with self._changed:
            self._since[thread] = time.monotonic()

    def __contains__(self, thread: threading.Thread) -> bool:
        with self._changed:
            return thread in self._since

    def leave(self, thread: threading.Thread) -> bool:
        """Take out a connection that has proved itself, or has failed to; False if it was evicted before."""
        with self._changed:
            self._changed.notify_all()
            return self._since.pop(thread, None) is not None

    def refuse(self, why: str) -> None:
        """Count a connection that was refused; report all that were, at most once a second."""
        with self._changed:
            self._refused, self._why = self._refused + 1, why
            self._tell_at_times()

    def look(self) -> float | None:
        """Evict connections whose time is over; return the seconds until the next may be due, None while there is none."""
        with self._changed:
            now = time.monotonic()
            for thread, since in list(self._since.items()):
                if since + self._seconds > now:
                    break
                self._put_out(thread, f"it has not proved itself within {self._seconds:g} s")
            self._tell_at_times()
            due = [since + self._seconds for since in list(self._since.values())[:1]]
            due += [self._reported + REPORT_SECONDS] if self._refused else []
            return max(0.0, min(due) - now) if due else None

    def _put_out(self, thread: threading.Thread, why: str) -> None:
        del self._since[thread]
        self._shut(thread)
        self._refused, self._why = self._refused + 1, why
        self._tell_at_times()

    def _tell_at_times(self) -> None:
        now = time.monotonic()
        if self._refused and now - self._reported >= REPORT_SECONDS:
            self._report(self._refused, self._why)
            self._refused, self._reported = 0, now
