"""Recovery: which tasks a training has lost, and how often it recovered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ...errors import LostError, TrainingError
from ..monitor import Monitor

MOST = 10

T = TypeVar("T")


class Recoveries:
    """Counts lost tasks, reports recoveries, and gives up when tasks are lost again and again without progress.

    Args:
        monitor: receives reports; its counts, and what checkpoints hold, measure the training's progress.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._applied = 0
        self._progress = (0, 0)
        self._losses: dict[str, list[str]] = {}
        self._last = ""
        self._since: float | None = None
        self._lock = threading.Lock()

    def lost(self, who: str, error: LostError, silent_seconds: float = 0.0) -> None:
        """Note a loss, from which recovery begins now.

        Args:
            who: "worker 3", "the workers", "the shards"; each is counted by itself.
            silent_seconds: since it was last heard of; recovery took that long already.

        Raises:
            TrainingError: it is the eleventh loss of the same tasks since the training last made progress; lists the last
                errors.
        """
        with self._lock:
            progress = (self._applied, sum(self._monitor.counted.values()))
            if any(now > before for now, before in zip(progress, self._progress, strict=True)):
                self._progress, self._losses = progress, {}
            losses = self._losses.setdefault(who, [])
            losses.append(str(error))
            self._last = str(error)
            self._since = self._since or time.monotonic() - silent_seconds
            if len(losses) > MOST:
                raise TrainingError(
                    f"Lost {who} {len(losses)} times without progress. The last errors: {' '.join(dict.fromkeys(losses[-3:]))}"
                ) from error

    def saved(self, applied: int) -> None:
        """Note a checkpoint, and how many batches shards had applied."""
        with self._lock:
            self._applied = max(self._applied, applied)

    def over(self) -> None:
        """Note that workers are at work, which ends a recovery if one is under way."""
        with self._lock:
            if self._since is None:
                return
            seconds, self._since = time.monotonic() - self._since, None
            why = self._last
        self._monitor.recovered(why, seconds)


def begun_again(attempt: Callable[[Recoveries], T], monitor: Monitor) -> T:
    """Return what an attempt returns; when its tasks are lost, start the same attempt again.

    Raises:
        TrainingError: see Recoveries.lost.
    """
    recoveries = Recoveries(monitor)
    while True:
        try:
            return attempt(recoveries)
        except LostError as error:
            recoveries.lost("the workers", error)
