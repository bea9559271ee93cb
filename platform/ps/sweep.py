"""Visiting all rows of a shard in rotation, some with each push: rows that have ended give their memory back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .messages import Keys

if TYPE_CHECKING:
    from .table import Table

VISITED = 4096  # rows at once, so that a push never waits long for it
SHARE = 1 / 16  # rows visited per key pushed
PER_START = 4  # and at least so many per row started: rows that have ended stay below a third of the others


class Sweep:
    """Visits the rows of one table in rotation, as they lie in memory."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._next = 0
        self._due = 0.0

    @property
    def wanted(self) -> bool:
        """Whether there is anything to look for."""
        return self._table.programs.lead.chain.expire is not None or self._table.watch is not None

    def pushed(self, keys: int, started: int, now: int) -> Keys:
        """Visit as many rows as a push of so many keys, so many of them new, makes due.

        Returns:
            uint64[m], the keys of rows that have ended; they are still there.
        """
        self._due += max(keys * SHARE, started * PER_START)
        found = [np.empty(0, np.uint64)]
        while self._due >= VISITED:
            self._due -= VISITED
            found.append(self._visit(now))
        return np.concatenate(found)

    def all(self, now: int) -> Keys:
        """Visit every row; returns as `pushed` does."""

        def ended(keys: Keys, rows: NDArray[np.uint32]) -> list[Keys]:
            return [keys[self._table.visit(keys, rows, VISITED, now)]]

        found = self._table.fold(ended, list.__add__, [np.empty(0, np.uint64)], VISITED)
        self._turned()
        return np.concatenate(found)

    def _visit(self, now: int) -> Keys:
        table = self._table
        keys, rows = table.store.scan(self._next, self._next + VISITED)
        self._next += VISITED
        ended = table.visit(keys, rows, VISITED, now)
        if self._next >= table.store.end:
            self._turned()
        return keys[ended]

    def _turned(self) -> None:
        self._next = 0
        if self._table.watch is not None:
            self._table.watch.turn()
