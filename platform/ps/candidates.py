"""Admission of features: occurrence counts of features without a row, about eleven bytes each, and rows on trial.

An exact counter of the key's other 54 bits in its slice, not a counting Bloom filter: at one false admission in a hundred the
filter would take about five bytes where the rows that admission saves take 46 and more, and it could be neither divided among
another number of shards, nor emptied of the features that were admitted, nor tested against a plain count.

A row on trial is the row that the feature would have: anything less would not show what its optimizer makes of its gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._native import Counter
from .rows.base import NewRows

if TYPE_CHECKING:
    from ..operators.base import Counting

Keys = NDArray[np.uint64]
Counts = NDArray[np.uint32]


class Counted(NamedTuple):
    """All counters of a table: keys uint64[n], counts uint32[n], and whether each is of the period before, bool[n]."""

    keys: Keys
    counts: Counts
    before: NDArray[np.bool_]


class Candidates:
    """Counts occurrences of keys without rows in this period of TIME and the previous one; without periods, for ever.

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
        """Restore counters as they were at the TIME `now`."""
        self._period = int(now // self._within)
        for counter, chosen in ((self._current, ~counted.before), (self._before, counted.before)):
            counter.add(np.ascontiguousarray(counted.keys[chosen]), np.ascontiguousarray(counted.counts[chosen]))


class OnTrial(NamedTuple):
    """All trials of a table.

    Attributes:
        keys: uint64[n].
        slots: uint16[n].
        statistics: name -> uint32[n].
        columns: name in the row -> float32[n, dim].
    """

    keys: Keys
    slots: NDArray[np.uint16]
    statistics: dict[str, Counts]
    columns: dict[str, NDArray[np.float32]]

    def only(self, chosen: NDArray[np.bool_]) -> OnTrial:
        """Return some of them."""
        statistics = {name: values[chosen] for name, values in self.statistics.items()}
        return OnTrial(self.keys[chosen], self.slots[chosen], statistics, {c: v[chosen] for c, v in self.columns.items()})


class Trials:
    """Trial rows of features without a row: admission judges a feature by its trial row, while pulls read it as absent.

    Args:
        new_rows: makes what keeps them.
        layout: of the rows: slot, statistics, float columns.
        statistics: how many of the columns are the slot and the statistics.
    """

    def __init__(self, new_rows: NewRows, layout: Sequence[tuple[str, str, int]], statistics: int) -> None:
        self.store = new_rows(layout)
        self._columns = {name: (number, kind, dim) for number, (name, kind, dim) in enumerate(layout)}
        self._statistics = [name for name, _, _ in layout[1:statistics]]
        self._floats = [name for name, _, _ in layout[statistics:]]

    def put_into(self, given: Any, at: NDArray[np.intp], rows: NDArray[np.uint32]) -> None:
        """Copy rows to places among the inputs of a program."""
        for name in (*self._statistics, *self._floats):
            if name in given:
                given[name][at] = self.column(name, rows).reshape(len(at), *given[name].shape[1:])

    def column(self, name: str, rows: NDArray[np.uint32]) -> NDArray[Any]:
        """Return a column of rows: [n, dim], of a dim of 1 [n, 1] where it is of floats, else [n]."""
        number, kind, dim = self._columns[name]
        found = np.empty((len(rows), dim) if kind == "float32" else len(rows), kind)
        self.store.gather(rows, [number], [found])
        return found

    def entries(self) -> OnTrial:
        """Return all trials."""
        keys, rows = self.store.keys()
        return OnTrial(
            keys,
            self.column("slot", rows),
            {name: self.column(name, rows) for name in self._statistics},
            {name: self.column(name, rows) for name in self._floats},
        )

    def load(self, trials: OnTrial) -> None:
        """Restore trials; a missing column is 0."""
        rows, _ = self.store.insert(np.ascontiguousarray(trials.keys))
        self.put(rows, {"slot": trials.slots, **trials.statistics, **trials.columns})

    def put(self, rows: NDArray[np.uint32], values: Mapping[str, NDArray[Any]]) -> None:
        """Set columns of rows, those that rows have."""
        known = [name for name in values if name in self._columns]
        numbers = [self._columns[name][0] for name in known]
        self.store.scatter(rows, numbers, [np.ascontiguousarray(values[name]) for name in known])
