"""A table of the parameter server: rows of one or several kinds of weights, and the chains of operators that update them.

What holds the rows (rows/base.py) knows no mathematics; chains are JAX. A push gathers the rows of its keys, runs the
chains as one jitted function on arrays padded to a short ladder of sizes, and scatters the result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._native import Arguments
from .candidates import Candidates, Trials
from .compiled.ladder import rung
from .compiled.program import Program
from .compiled.row_programs import Done, Pushed, RowPrograms
from .compiled.starts import Starts
from .compiled.table_programs import DRAWN, STATISTICS, Programs
from .messages import BatchId, Counts, Floats, Gate, Keys, Mask, Read, RefusedError, Touched
from .rows.base import MISSING, NewRows, Rows
from .rows.watch import Watch

STATISTIC_COLUMNS = [("slot", "uint16", 1), *((name, "uint32", 1) for name in STATISTICS)]
NUMBER = {name: number for number, (name, _, _) in enumerate(STATISTIC_COLUMNS)}
COUNTED = [NUMBER[name] for name in ("count", "shows", "clicks", "updates")]
DUMP_ROWS = 1 << 16
DUMP_SLICES = 64

Columns = dict[str, NDArray[np.generic]]
T = TypeVar("T", bound=np.generic)
S = TypeVar("S")


class Table:
    """Rows on one shard; a row has the columns of all of the algorithm's tables that have rows for the same keys. Its shard
    applies one push at a time; pulls go on while a push computes.

    Args:
        programs: of its rows.
        new_rows: makes what holds them.
        first: the shard's first table; None: this is it.

    Attributes:
        lock: held while rows are read or written; the shard's tables share it.
        base_rate, examples: mean label of all examples pushed so far, and how many they are; its shard sets them.
        rate: what optimizers' steps are multiplied by; its shard sets it.
        watch: receives the range of weights, where it is asked for.
        candidates: features without rows, where admission asks how often they occurred.
        trials: the rows that they would have, where admission asks what they have earned.
    """

    def __init__(self, programs: RowPrograms, new_rows: NewRows, first: Table | None = None) -> None:
        self.programs = programs
        self.first = first
        self.lock: threading.RLock = threading.RLock() if first is None else first.lock
        self.watch: Watch | None = None
        self.candidates: Candidates | None = None
        self.trials: Trials | None = None
        self.store: Rows = new_rows([*STATISTIC_COLUMNS, *((name, "float32", dim) for name, dim in programs.dims.items())])
        self.since = 0
        self.base_rate, self.examples, self.rate = 0.0, 0, 1.0
        self._starts = Starts(programs)
        self._numbers = NUMBER | {name: len(NUMBER) + i for i, name in enumerate(programs.stored)}

    def pull(self, keys: Keys, size: int, now: int, gone: Mask | None = None) -> Read:
        """Return the weights of keys as chains read them, the updates their rows have had, and what operators offer.

        Never creates a row: an absent key reads as a new row would start, zeros where there is no init, so that features whose
        weights start at random are learned from the first batch they are in; zeros where rows need admission.

        Args:
            keys: uint64[n], unique.
            size: rows of the weights; those from n on are zeros.
            now: newest TIME pushed to the shard, seconds.
            gone: bool[n], keys whose row in the first table has ended, whose rows here read as absent too; None: none.
        """
        programs, program = self.programs, self.programs.pull
        with self.lock:
            given, rows = self._looked_up(program, keys, size)
        absent = rows == MISSING
        if gone is not None:
            self._blank(given, gone)
            absent |= gone
        if not programs.lead.gated:
            self._starts.put(given, keys, absent)
        weights: dict[str, Floats] = {name: given[column] for name, column in programs.pulled_stored.items()}
        offered = ended = None
        if len(weights) < len(programs.tables):
            self._rest(given, keys, absent, now)
            computed, offered, ended = program(given)
            weights |= {name: np.asarray(values) for name, values in computed.items()}
        if ended is not None:
            absent |= (ended := np.asarray(ended)[: len(keys)])
            gone = ended if self.first is None else gone
        updates = np.where(absent, np.uint32(0), given["updates"][: len(keys)]) if programs.needs_updates else None
        return Read(weights, updates, None if offered is None else np.asarray(offered), gone)

    def push(
        self,
        touched: Touched,
        seen: Counts | None,
        pulled: Mapping[str, Floats],
        gradients: Mapping[str, Floats],
        now: int,
        gate: Gate | None = None,
    ) -> tuple[dict[str, float], Gate | None]:
        """Update the rows of a batch's keys, creating those that are new.

        Args:
            touched: the keys and what is known of them.
            seen: uint32[n], the update counts as pulled; None where no chain uses staleness.
            pulled: table of the algorithm -> float32[size, dim], the weights as pulled; only tables whose chain uses them.
            gradients: table of the algorithm -> float32[size, dim], size >= n; the rest is ignored.
            now: newest TIME pushed to the shard, this push included, seconds.
            gate: what the first table has decided; None: this is the first, or it decides nothing.

        Returns:
            The sum over keys of each transient column of the chains, such as violations; the gate for the tables that follow.

        Raises:
            RefusedError: an operator set to fail on violations found one; nothing of the push is stored.
        """
        keys, program = touched.keys, self._push_program
        with self.lock:
            given, rows = self._looked_up(program, keys, self._size(gradients))
        new = rows == MISSING
        self._starts.put(given, keys, new)
        self._rest(given, keys, new, now)
        self._tell(given, touched, seen)
        done = self._done(program, given, touched, pulled, gradients)
        columns = [np.asarray(done.columns[name]) for name in self.programs.stored]
        (created,) = new.nonzero()
        with self.lock:
            if len(created):
                rows[created], _ = self.store.insert(keys[created])
            self._store(self.store, rows, created, columns, touched, touched.counts, now)
        return self._report(done), None

    def load(self, name: str, keys: Keys, columns: Mapping[str, NDArray[np.generic]], since: int) -> None:
        """Put rows of one of the algorithm's tables, of an earlier version, here. What the version lacks starts as new: columns
        of the chain that it lacks, and columns of the other tables until they are loaded.

        Args:
            keys: uint64[n], unique.
            columns: name -> slot uint16[n], statistics uint32[n], float columns float32[n, dim].
            since: the TIME that the rows were brought up to when they were dumped.
        """
        self.since = since
        table = self.programs.tables[name]
        found = {column: columns[own] for own, column in table.columns.items() if own in columns}
        rows, created = self.store.insert(keys)
        (new,) = created.nonzero()
        initial = {c: np.zeros((len(new), self.programs.dims[c]), np.float32) for c in self.programs.initial if c not in found}
        self._starts.put(initial, keys[new], np.ones(len(new), np.bool_))
        self.put(rows[new], initial)
        self.put(rows, found)
        # Statistics come from the first table; another one has the same.
        known = rows if table is self.programs.lead else rows[new]
        self.put(known, {n: columns[n] if known is rows else columns[n][new] for n in NUMBER if n in columns})

    def dump(self, name: str, now: int, slices: range) -> Iterator[tuple[Keys, Columns]]:
        """Iterate over the rows of some slices, with the columns of one of the algorithm's tables, ordered by key, in pieces,
        brought up to now.

        Yields:
            keys; slot, statistics, stored columns and weights `w` by name.
        """
        table = self.programs.tables[name]
        size = min(rung(len(self)), DUMP_ROWS)  # one for all pieces: a program for each would take longer than its work
        for start in range(slices.start, slices.stop, DUMP_SLICES):
            keys, rows = self.store.keys(start, min(slices.stop, start + DUMP_SLICES))
            for at in range(0, len(keys), size):
                yield self.piece(self.store, table, keys[at : at + size], rows[at : at + size], now, size)

    def fold(self, function: Callable[[Keys, NDArray[np.uint32]], S], merge: Callable[[S, S], S], initial: S, size: int) -> S:
        """Fold a function over all rows, in pieces as they lie in memory, and return the merged result.

        Args:
            function: of the keys of a piece and their rows, as in visit; no row may be created or removed during the fold.
        """
        for start in range(0, self.store.end, size):
            initial = merge(initial, function(*self.store.scan(start, start + size)))
        return initial

    def visit(self, keys: Keys, rows: NDArray[np.uint32], size: int, now: int) -> Mask:
        """Return which of some rows have ended, bool[n], and report the range of the other rows' weights to the watch.

        Args:
            size: what they are padded to.
        """
        ended = self._ended(keys, rows, rows == MISSING, size, now)
        if self.watch is not None:
            program = self.programs.bounds
            given = self._gathered(program, rows, size)
            self._rest(given, keys, ended, now)
            low, high = program(given)
            self.watch.see(float(low), float(high))
        return ended

    def computed(self, program: Program, keys: Keys, rows: NDArray[np.uint32], size: int, now: int) -> tuple[Any, Mask]:
        """Return what a program of updates makes of rows, padded to `size`, and which of them end, bool[n]."""
        given = self._gathered(program, rows, size)
        self._rest(given, keys, np.zeros(len(keys), np.bool_), now)
        found, ended = program(given)
        return found, np.asarray(ended)[: len(keys)]

    def ends(self, program: Program, store: Rows, keys: Keys, rows: NDArray[np.uint32], size: int, now: int) -> Mask:
        """Return which of some rows, of this table or on trial for it, end by a program, bool[n]."""
        given = program.prepared(size)
        store.gather_into(rows, given)
        self._rest(given, keys, np.zeros(len(keys), np.bool_), now)
        return np.asarray(program(given))[: len(keys)]

    def __len__(self) -> int:
        return len(self.store)

    @property
    def memory_bytes(self) -> int:
        """Bytes in use."""
        return self.store.memory_bytes

    def _ended(self, keys: Keys, rows: NDArray[np.uint32], absent: Mask, size: int, now: int) -> Mask:
        """Return which keys have a row that has ended by its own operators."""
        program = self.programs.ended
        if program is None:
            return np.zeros(len(keys), np.bool_)
        given = self._gathered(program, rows, size)
        self._rest(given, keys, absent, now)
        return np.asarray(program(given))[: len(keys)]

    def piece(
        self, store: Rows, table: Programs, keys: Keys, rows: NDArray[np.uint32], now: int, size: int
    ) -> tuple[Keys, Columns]:
        """Return rows, at most `size`, as `dump` does."""
        n, program = len(keys), table.read
        columns: Columns = {name: np.empty(n, kind) for name, kind, _ in STATISTIC_COLUMNS}
        store.gather(rows, [NUMBER[name] for name in columns], list(columns.values()))
        given = program.prepared(size)
        store.gather_into(rows, given)
        self._rest(given, keys, np.zeros(n, np.bool_), now)
        read = program(given)
        return keys, columns | {name: np.asarray(values)[:n] for name, values in read.items()}

    def _looked_up(self, program: Program, keys: Keys, size: int) -> tuple[Arguments, NDArray[np.uint32]]:
        """Return the inputs of a program, with the columns of keys, padded with zeros to `size`; and the rows of keys."""
        given = program.prepared(size)
        return given, self.store.pull(keys, given)

    def _gathered(self, program: Program, rows: NDArray[np.uint32], size: int) -> Arguments:
        """Return the inputs of a program, with the columns of rows, padded with zeros to `size`."""
        given = program.prepared(size)
        self.store.gather_into(rows, given)
        return given

    def _blank(self, given: Arguments, chosen: Mask) -> None:
        """Set columns of the rows chosen to zero, in place: the values of a row that has ended are still in memory."""
        if chosen.any():
            for name in self._numbers:
                if name in given:
                    given[name][: len(chosen)][chosen] = 0

    def _rest(self, given: Arguments, keys: Keys, mask: Mask, now: int) -> None:
        """Set the inputs of a program that are no columns."""
        of_all = {"@base_rate": self.base_rate, "@examples": self.examples, "@rate": self.rate}
        numbers = {"@now": now, "@since": self.since, "@rows": len(mask), **of_all}
        given.put({"@mask": mask, "@keys": keys, **numbers})

    def put(self, rows: NDArray[np.uint32], columns: Mapping[str, NDArray[np.generic]]) -> None:
        """Set columns of rows."""
        numbers = [self._numbers[name] for name in columns]
        self.store.scatter(rows, numbers, [np.ascontiguousarray(values) for values in columns.values()])

    def _size(self, gradients: Mapping[str, Floats]) -> int:
        """Return what a push is padded to."""
        return len(gradients[self.programs.lead.spec.name])

    def _done(
        self,
        program: Program,
        given: Arguments,
        touched: Touched,
        pulled: Mapping[str, Floats],
        gradients: Mapping[str, Floats],
    ) -> Pushed:
        """Run the program of a push, given all its inputs except weights and gradients.

        Raises:
            RefusedError: see push.
        """
        done: Pushed = program(given, self.programs.brought(pulled, gradients))
        if (row := done.refused_row) is not None:
            raise refused(touched, row)
        return done

    @property
    def _push_program(self) -> Program:
        return self.programs.push if self.watch is None else self.programs.watched_push

    def _tell(self, given: Arguments, touched: Touched, seen: Counts | None) -> None:
        """Set the inputs of a program that a push brings."""
        counted = {"@counts": touched.counts, "@clicks": touched.clicks, "@seen": seen, "slot": touched.slots}
        given.put({**counted, "@pushed": touched.examples, **drawn(touched.batch)})

    def _report(self, done: Done) -> dict[str, float]:
        if self.watch is not None and done.bounds is not None:
            low, high = done.bounds
            self.watch.see(float(low), float(high))
        return {} if done.report is None else dict(zip(self.programs.transient, np.asarray(done.report).tolist(), strict=True))

    def _store(
        self,
        store: Rows,
        rows: NDArray[np.uint32],
        created: NDArray[np.intp],
        columns: Sequence[Floats],
        touched: Touched,
        counts: Counts,
        now: int,
    ) -> None:
        """Write what a push leaves of its rows, all of which exist.

        Args:
            store: that holds them.
            created: positions of the rows that it has created.
            columns: the first stored columns, float32[size, dim], size >= n.
            counts: uint32[n], added to the rows' counts.
        """
        numbers = [self._numbers[name] for name in self.programs.stored[: len(columns)]]
        newest = [NUMBER["last_seen"]] if now else []
        amounts: list[int | Counts] = [counts, touched.counts, touched.clicks, 1]
        store.update(rows, numbers, columns, COUNTED, amounts, newest, [now] * len(newest))
        if len(created):
            store.scatter(rows[created], [NUMBER["slot"]], [touched.slots[created]])


def drawn(batch: BatchId) -> dict[str, int]:
    """Return what a batch gives to draw from, as inputs of a program."""
    return dict(zip(DRAWN, batch.draw, strict=True))


def refused(touched: Touched, row: int) -> RefusedError:
    return RefusedError(int(touched.keys[row]), int(touched.slots[row]))
