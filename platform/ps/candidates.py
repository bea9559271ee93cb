"""Features that occurred but have no row: how often, in about eleven bytes each.

An exact counter of the key's other 54 bits in its slice, not a counting Bloom filter: at one false admission in a hundred the
filter would take about five bytes where the rows that admission saves take 46 and more, and it could be neither divided among
another number of shards, nor emptied of the features that were admitted, nor tested against a plain count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..operators.base import Counting
from ._native import Counter

Keys = NDArray[np.uint64]
Counts = NDArray[np.uint32]


class Counted(NamedTuple):
    """All counters of a table: keys uint64[n], counts uint32[n], and whether each is of the period before, bool[n]."""

    keys: Keys
    counts: Counts
    before: NDArray[np.bool_]


class Candidates:
    """Counts occurrences of keys without rows, in this period of TIME and the one before; without periods, for ever.

    Args:
        counting: the length of a period.
    """

    def __init__(self, counting: Counting) -> None:
        self._within = counting.within_seconds
        self._period = 0
        self._current, self._before = Counter(), Counter()

    def __len__(self) -> int:
        return len(self._current) + len(self._before)

    @property
    def memory_bytes(self) -> int:
        return self._current.memory_bytes + self._before.memory_bytes

    def turn(self, now: int) -> None:
        """Forget what is older than the period before the one that `now` lies in."""
        period = int(now // self._within)
        if period == self._period:
            return
        self._before = self._current if period == self._period + 1 else Counter()
        self._current = Counter()
        self._period = period

    def counts(self, keys: Keys) -> Counts:
        """Return how often keys occurred, uint32[n]."""
        return self._current.counts(keys) + self._before.counts(keys)

    def add(self, keys: Keys, counts: Counts) -> None:
        """Count occurrences."""
        self._current.add(keys, counts)

    def remove(self, keys: Keys) -> None:
        """Forget keys, which have rows now."""
        self._current.remove(keys)
        self._before.remove(keys)

    def entries(self) -> Counted:
        """Return all counters."""
        parts = [(*counter.entries(), before) for counter, before in ((self._current, False), (self._before, True))]
        return Counted(
            np.concatenate([keys for keys, _, _ in parts]),
            np.concatenate([counts for _, counts, _ in parts]),
            np.concatenate([np.full(len(keys), before) for keys, _, before in parts]),
        )

    def load(self, counted: Counted, now: int) -> None:
        """Put back counters that stood so at the TIME `now`."""
        self._period = int(now // self._within)
        for counter, chosen in ((self._current, ~counted.before), (self._before, counted.before)):
            counter.add(np.ascontiguousarray(counted.keys[chosen]), np.ascontiguousarray(counted.counts[chosen]))
