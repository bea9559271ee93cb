"""A snapshot under way, of rows that are copied when they change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint32]
Records = NDArray[np.uint8]


class PendingSnapshot:
    """What is left to take of a snapshot.

    Args:
        due: bool[end], the rows of it.
        reader: see Rows.begin_snapshot.
    """

    def __init__(self, due: NDArray[np.bool_], reader: int) -> None:
        self.reader = reader
        self._due = due.copy()
        self._kept: list[Records] = []
        self._next = 0

    @property
    def num_kept(self) -> int:
        """How many records were copied before they were taken."""
        return sum(map(len, self._kept))

    def keep(self, rows: Numbers, records: Callable[[Numbers], Records]) -> None:
        """Copy those of some rows, all different, that are due; they change next."""
        known = rows[rows < len(self._due)]
        if len(wanted := known[self._due[known]]):
            self._kept.append(records(wanted))
            self._due[wanted] = False

    def take(self, outs: Records, records: Callable[[Numbers], Records]) -> int:
        """Copy records, at most as many as fit, and return how many."""
        if self._kept:
            part = self._kept.pop()
            taken = min(len(part), len(outs))
            outs[:taken] = part[:taken]
            if taken < len(part):
                self._kept.append(part[taken:])
            return taken
        (due,) = self._due[self._next :].nonzero()
        rows = (due[: len(outs)] + self._next).astype(np.uint32)
        if not len(rows):
            return 0
        self._next = int(rows[-1]) + 1
        self._due[rows] = False
        outs[: len(rows)] = records(rows)
        return len(rows)
