"""Updates of all rows of a shard while it learns: when they are due, and how they are applied.

When one is due is a function of how many batches a run of slices has applied, which its watermark says. So rows at a watermark
have had what was due up to it, once, whatever was lost, restored or dealt to other shards in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...functions.base import Update
from ..keys import slices as slices_of_keys
from ..messages import Keys, Mask
from .ladder import rung
from .program import Program

if TYPE_CHECKING:
    from ..table import Table

PIECE_ROWS = 1 << 14


class TimedUpdate(NamedTuple):
    """An update of a training.

    Attributes:
        tables: what it is, by the name of each of the algorithm's tables that it acts on.
        every: after so many batches each; 0: at the end of every pass.
    """

    tables: Mapping[str, Update]
    every: int


class TriedUpdates(NamedTuple):
    """What updates would do to a table: how many rows they change and remove, and whether numbers stay such."""

    table: str
    changed: int
    removed: int
    finite: bool


def within(keys: Keys, slices: Sequence[range]) -> Mask:
    """Return which keys are of some slices."""
    at, own = slices_of_keys(keys), np.zeros(len(keys), np.bool_)
    for run in slices:
        own |= (at >= run.start) & (at < run.stop)
    return own


class RowUpdates:
    """The updates of a training, in order. Shards share them."""

    def __init__(self, timed: Sequence[TimedUpdate]) -> None:
        self._timed = tuple(timed)
        self._programs: dict[tuple[int, tuple[int, ...]], Program] = {}
        self.of_passes = tuple(number for number, one in enumerate(self._timed) if not one.every)

    def after(self, batches: int) -> tuple[int, ...]:
        """Return the numbers of the updates that are due after so many batches."""
        return tuple(number for number, one in enumerate(self._timed) if one.every and batches % one.every == 0)

    def apply(self, table: Table, chosen: tuple[int, ...], slices: Sequence[range], now: int) -> Keys:
        """Apply updates, by their numbers, to the rows of some slices, and return the keys of those that they end.

        Where operators look at the time, all other rows are brought up to now, too: `since` is one for a table.
        """
        lives_in_time = any(one.chain.needs_time for one in table.programs.tables.values())
        ended = [np.empty(0, np.uint64)]
        with table.lock:
            for start in range(0, table.store.end, PIECE_ROWS):
                keys, rows = table.store.scan(start, start + PIECE_ROWS)
                own = within(keys, slices)
                for numbers, mine in ((chosen, own), ((), ~own)):
                    if mine.any() and (numbers or lives_in_time):
                        program = self._program(table, numbers)
                        found, ends = table.computed(program, keys[mine], rows[mine], PIECE_ROWS, now)
                        table.put(rows[mine], {name: np.asarray(values)[: len(ends)] for name, values in found.items()})
                        ended.append(keys[mine][ends])
            self._forget(table, chosen, slices, now)
            if lives_in_time:
                table.since = now
        return np.concatenate(ended)

    def tried(self, table: Table, now: int) -> TriedUpdates:
        """Return what all updates would make of a table's rows now, and change none."""
        lead = table.programs.lead
        every = tuple(range(len(self._timed)))
        changed = removed = 0
        finite = True
        with table.lock:
            for start in range(0, table.store.end, PIECE_ROWS):
                keys, rows = table.store.scan(start, start + PIECE_ROWS)
                after, ends = table.computed(self._program(table, every), keys, rows, PIECE_ROWS, now)
                before, _ = table.computed(self._program(table, ()), keys, rows, PIECE_ROWS, now)
                both = [(np.asarray(before[name])[: len(ends)], np.asarray(after[name])[: len(ends)]) for name in after]
                moved = np.any([(one != other).any(1) for one, other in both], axis=0)
                changed, removed = changed + int(np.count_nonzero(moved & ~ends)), removed + int(np.count_nonzero(ends))
                finite = finite and all(np.isfinite(other[np.isfinite(one)]).all() for one, other in both)
        return TriedUpdates(lead.spec.name, changed, removed, finite)

    def _forget(self, table: Table, chosen: tuple[int, ...], slices: Sequence[range], now: int) -> None:
        """Forget what updates remove of features without a row: trials that they end, and all counts, which have no slot."""
        lead = table.programs.lead
        own = [one.tables[lead.spec.name] for one in map(self._timed.__getitem__, chosen) if lead.spec.name in one.tables]
        forgets = [one for one in own if one.trials and one.ends is not None]
        if not forgets or table.first is not None:
            return
        if table.candidates is not None:
            keys = table.candidates.entries().keys
            table.candidates.remove(keys[within(keys, slices)])
        if table.trials is not None and len(table.trials.store):
            program = Program(lambda given: lead.applied(forgets, lead.own(given))[1], lead.inputs)
            keys, rows = table.trials.store.keys()
            ends = table.ends(program, table.trials.store, keys, rows, rung(len(keys)), now)
            table.trials.store.evict(keys[ends & within(keys, slices)])

    def _program(self, table: Table, numbers: tuple[int, ...]) -> Program:
        """Return the program of some updates for the rows of a table."""
        key = id(table.programs), numbers
        if key not in self._programs:
            updates: dict[str, list[Update]] = {}
            for number in numbers:
                for name, update in self._timed[number].tables.items():
                    updates.setdefault(name, []).append(update)
            self._programs[key] = table.programs.applying(updates)
        return self._programs[key]
