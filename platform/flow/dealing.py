"""Which worker takes which split."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple


class Turn(NamedTuple):
    """A split in a pass, by their numbers from 0."""

    pass_number: int
    split: int


Deal = Callable[[], Turn | None]
"""Gives the next turn, None when there are no more."""


class Dealer:
    """Deals the splits of all passes in order.

    Args:
        num_splits, passes: what there is to deal.
        num_workers: that ask.
        fixed: worker r takes turns r, r + num_workers, ... whatever the timing (bsp); else whoever asks takes the next one.
    """

    def __init__(self, num_splits: int, passes: int, num_workers: int, fixed: bool) -> None:
        turns = [Turn(number, split) for number in range(passes) for split in range(num_splits)]
        free = iter(turns)
        self._turns = [iter(turns[r::num_workers]) if fixed else free for r in range(num_workers)]
        self._lock = threading.Lock()

    def next(self, worker: int) -> Turn | None:
        """Return the next turn of a worker, None when there are no more."""
        with self._lock:
            return next(self._turns[worker], None)
