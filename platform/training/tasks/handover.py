"""Work stealing: which turn of a slow worker a free one takes over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...ps.watermarks import Turn

GAIN = 1.25
"""A turn is handed over only if its holder needs so many times as long as a free worker."""
MOVE_SECONDS = 0.5
"""The time a free worker needs to get to the current batch of a turn."""
MOST_MOVES = 3
"""How often one turn is handed over at most."""


class Handover(NamedTuple):
    """A turn that another worker takes over."""

    turn: Turn
    holder: int


class Speeds:
    """How fast workers learn, and what follows for the turns that they hold. Not thread-safe.

    Args:
        batches: how many batches a turn has at most.
    """

    def __init__(self, batches: Callable[[Turn], int]) -> None:
        self._batches = batches
        self._began: dict[int, float] = {}
        self._learned: Counter[int] = Counter()
        self._last: dict[int, float] = {}
        self._moves: Counter[Turn] = Counter()

    def begin(self, worker: int) -> None:
        """Note that a worker gets a turn."""
        self._began.setdefault(worker, time.monotonic())

    def learned(self, worker: int, batches: int) -> None:
        """Note that a worker has learned some more batches."""
        self._learned[worker] += batches
        self._last[worker] = time.monotonic()

    def forget(self, worker: int) -> None:
        """Forget a lost worker: another one will take its number."""
        self._began.pop(worker, None)
        self._learned.pop(worker, None)

    def choose(self, free: int, held: Mapping[int, Sequence[Turn]], counted: Mapping[Turn, int]) -> Handover | None:
        """Return the turn that would be finished last, if a worker that holds none would finish it sooner.

        Args:
            free: the worker.
            held: the turns of each worker, in their order.
            counted: turn -> how many of its batches are counted.
        """
        now = time.monotonic()
        rate = self._rate(free, self._last.get(free, now)) or max((self._rate(one, now) for one in held), default=0.0)
        latest, chosen = 0.0, None
        for holder, turns in held.items():
            if holder == free or not rate:
                continue
            own, needed = self._rate(holder, now), 0.0
            for turn in turns:
                left = max(1, self._batches(turn) - counted.get(turn, 0))
                needed += left / own if own else now - self._began.get(holder, now)  # one that has learned nothing yet
                if needed > max(latest, GAIN * left / rate + MOVE_SECONDS) and self._moves[turn] < MOST_MOVES:
                    latest, chosen = needed, Handover(turn, holder)
        if chosen is not None:
            self._moves[chosen.turn] += 1
        return chosen

    def _rate(self, worker: int, until: float) -> float:
        """Return the batches that a worker learns in a second; 0: not known."""
        seconds = until - self._began.get(worker, until)
        return self._learned[worker] / seconds if seconds > 0 else 0.0
