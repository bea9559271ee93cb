"""Tables whose rows are admitted and expire (admission and eviction).

A row that has expired is absent for every reader from the moment its operators decide so; its memory is freed later, a few rows
with each push, and no reader can notice. So results depend neither on when memory is freed nor on the number of shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._native import Arguments
from .candidates import Candidates, Trials
from .compiled.ladder import rung
from .compiled.row_programs import Pushed, RowPrograms, row_programs
from .compiled.table_programs import Programs
from .messages import Counts, Floats, Gate, Keys, Mask, Touched
from .rows.base import MISSING, NewRows
from .sweep import PER_START, VISITED
from .table import COUNTED, DUMP_ROWS, STATISTIC_COLUMNS, Columns, Table, drawn


class LifecycleTable(Table):
    """A table whose rows are admitted and expire; arguments as for Table."""

    def __init__(self, programs: RowPrograms, new_rows: NewRows, first: Table | None) -> None:
        super().__init__(programs, new_rows, first)
        counting = programs.lead.chain.counting if first is None else None
        if counting:
            self.candidates = Candidates(counting)
        lead = programs.lead
        tried = lead.chain.trial if first is None else ()
        self._tried_slots = sorted(frozenset().union(*tried)) if all(tried) else []
        if tried:
            floats = [(lead.columns[name], "float32", dim) for name, dim in lead.dims.items()]
            self.trials = Trials(new_rows, [*STATISTIC_COLUMNS, *floats], len(STATISTIC_COLUMNS))
        self._due = self._next = 0

    @property
    def memory_bytes(self) -> int:
        counts = self.candidates.memory_bytes if self.candidates else 0
        return self.store.memory_bytes + counts + (self.trials.store.memory_bytes if self.trials else 0)

    def push(
        self,
        touched: Touched,
        seen: Counts | None,
        pulled: Mapping[str, Floats],
        gradients: Mapping[str, Floats],
        now: int,
        gate: Gate | None = None,
    ) -> tuple[dict[str, float], Gate | None]:
        """Update the rows of a batch's keys, create those that are admitted, and remove those that had ended.

        Returns:
            The report has `admitted` and `expired` too, counted by the first table.
        """
        with self.lock:
            size, keys, program = self._size(gradients), touched.keys, self._push_program
            given, rows = self._looked_up(program, keys, size)
            missing = rows == MISSING
            ended = np.zeros(len(keys), np.bool_)
            if gate is not None:
                ended = gate.fresh & ~missing
                self._blank(given, ended)
            absent = missing | ended
            known = self._known(keys, missing, now)
            self._starts.put(given, keys, absent)
            trial = self._tried(given, keys, missing)
            self._rest(given, keys, absent & (trial == MISSING), now)
            self._tell(given, touched, seen)
            self._try(given, trial != MISSING)
            if "count" in given:
                given["count"][: len(keys)] += known
            done = self._done(program, given, touched, pulled, gradients)
            if done.ended is not None:
                ended = ended | np.asarray(done.ended)[: len(keys)]
            fresh = missing | ended
            shut = fresh & ~self._admitted(touched, done, gate, size, now)
            if ended.any():
                self.store.evict(keys[ended])
            started = fresh & ~shut
            self._keep(touched, done, rows, started, shut, known, now)
            if self.trials is not None:
                self._go_on(self.trials, touched, done, trial, started, shut, ended, now)
            report = self._report(done)
            if self.first is not None:
                return report, gate
            self._remember(touched, started & (known > 0), shut)
            counted = {"admitted": float(np.count_nonzero(started)), "expired": float(np.count_nonzero(ended & ~missing))}
            return report | counted, Gate(fresh, shut)

    def _known(self, keys: Keys, absent: Mask, now: int) -> Counts:
        """Return how often keys without rows occurred before, 0 for the others."""
        known = np.zeros(len(keys), np.uint32)
        if self.candidates is not None:
            self.candidates.turn(now)
            known[absent] = self.candidates.counts(keys[absent])
        return known

    def _admitted(self, touched: Touched, done: Pushed, gate: Gate | None, size: int, now: int) -> Mask:
        """Return which keys may start a row, bool[n]."""
        n, first, program = len(touched.keys), self.first, self.programs.lead.admission
        follows = np.ones(n, np.bool_) if gate is None else ~gate.shut
        if first is None:
            return follows if done.admitted is None else np.asarray(done.admitted)[:n]
        if program is None:
            return follows
        rows = first.store.lookup(touched.keys)
        given = first._gathered(program, rows, size)
        first._rest(given, touched.keys, rows == MISSING, now)
        given.put(drawn(touched.batch))
        own: Mask = np.asarray(program(given))[:n]
        return own & follows

    def _keep(
        self, touched: Touched, done: Pushed, rows: NDArray[np.uint32], started: Mask, shut: Mask, known: Counts, now: int
    ) -> None:
        """Store the rows of the keys that are not shut out; the count of one that starts has the occurrences before it.

        Args:
            rows: uint32[n], as they were found.
            started: bool[n], those that get a row now.
        """
        if started.any():
            rows[started], _ = self.store.insert(touched.keys[started])
        columns = [np.asarray(done.columns[name]) for name in self.programs.stored]
        counts = touched.counts + known
        if shut.any():
            kept = np.flatnonzero(~shut)
            touched, rows, started, counts = touched.only(kept), rows[kept], started[kept], counts[kept]
            columns = [column[kept] for column in columns]
        self._store(self.store, rows, np.flatnonzero(started), columns, touched, counts, now)

    def _remember(self, touched: Touched, started: Mask, shut: Mask) -> None:
        """Count the occurrences of keys without rows, and forget keys that have a row now."""
        if self.candidates is not None:
            self.candidates.remove(touched.keys[started])
            self.candidates.add(touched.keys[shut], touched.counts[shut])

    def _tried(self, given: Arguments, keys: Keys, missing: Mask) -> NDArray[np.uint32]:
        """Set columns of the features on trial to what they have earned, in place.

        Returns:
            uint32[n], where their trials lie; MISSING for others.
        """
        found = np.full(len(keys), MISSING)
        if self.trials is not None:
            found[missing] = self.trials.store.lookup(keys[missing])
            (at,) = (found != MISSING).nonzero()
            self.trials.put_into(given, at, found[at])
        return found

    def _try(self, given: Arguments, trial: Mask) -> None:
        """Mark the features on trial for a program; their updates do not count as staleness for a worker that pulled zeros."""
        given.put({"@trial": trial})
        if "@seen" in given:
            given["@seen"][: len(trial)][trial] = MISSING

    def _go_on(
        self,
        trials: Trials,
        touched: Touched,
        done: Pushed,
        trial: NDArray[np.uint32],
        started: Mask,
        shut: Mask,
        ended: Mask,
        now: int,
    ) -> None:
        """Hand what was earned to the rows that start now, and keep what the others on trial have earned."""
        (begun,) = (started & ~ended & (trial != MISSING)).nonzero()
        if len(begun):
            earned = [trials.column(STATISTIC_COLUMNS[number][0], trial[begun]) for number in COUNTED]
            self.store.update(self.store.lookup(touched.keys[begun]), [], [], COUNTED, earned, [], [])
        trials.store.evict(touched.keys[(started | ended) & (trial != MISSING)])
        if self._tried_slots:
            shut = shut & np.isin(touched.slots, self._tried_slots)
        (kept,) = shut.nonzero()
        if not len(kept):
            return
        rows, created = trials.store.insert(touched.keys[kept])
        lead, left = self.programs.lead, touched.only(kept)
        columns = [np.asarray(done.columns[name])[kept] for name in lead.columns.values()]
        counts = left.counts if self.candidates is None else np.zeros_like(left.counts)  # those are counted beside
        self._store(trials.store, rows, np.flatnonzero(created), columns, left, counts, now)
        self._forget(trials, int(np.count_nonzero(created)), now)

    def _forget(self, trials: Trials, created: int, now: int) -> None:
        """Remove trials that have ended, some with each push; see Sweep."""
        program = self.programs.ended
        if program is None:
            return
        self._due += PER_START * created
        while self._due >= VISITED:
            self._due -= VISITED
            keys, rows = trials.store.scan(self._next, self._next + VISITED)
            given = program.prepared(VISITED)
            trials.store.gather_into(rows, given)
            self._rest(given, keys, np.zeros(len(keys), np.bool_), now)
            trials.store.evict(keys[np.asarray(program(given))[: len(keys)]])
            self._next = 0 if self._next + VISITED >= trials.store.end else self._next + VISITED

    def dump_trials(self, trials: Trials, now: int) -> Iterator[tuple[Keys, Columns]]:
        """Iterate over trials as `dump` does over rows."""
        keys, rows = trials.store.keys()
        for at in range(0, len(keys), DUMP_ROWS):
            piece = slice(at, at + DUMP_ROWS)
            yield self.piece(trials.store, self.programs.lead, keys[piece], rows[piece], now, rung(min(len(keys), DUMP_ROWS)))


NewTable: TypeAlias = Callable[[RowPrograms, Table | None], Table]
"""Makes an empty table whose rows stay, given the shard's first table, None for itself."""


def tables_of(programs: Sequence[Programs], new_rows: NewRows, new_table: NewTable | None = None) -> dict[str, Table]:
    """Return empty tables, each by the name of the first of the algorithm's tables whose rows it has; the later ones follow the
    first.

    Args:
        new_table: makes those whose rows are neither admitted nor end; None: they have `new_rows`, too.
    """
    tables: dict[str, Table] = {}
    for one in row_programs(tuple(programs)):
        first = next(iter(tables.values()), None)
        if one.lead.lives:
            tables[one.lead.spec.name] = LifecycleTable(one, new_rows, first)
        else:
            made = Table(one, new_rows, first) if new_table is None else new_table(one, first)
            tables[one.lead.spec.name] = made
    return tables
