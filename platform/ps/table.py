"""A table of the parameter server: the rows of one kind of weights, and the chain of operators that updates them.

The native store holds the rows and knows no mathematics; the chain is JAX. A push gathers the rows of its keys, runs the chain
as one jitted function on arrays padded to a short ladder of sizes, and scatters the result.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._native import Arguments, Store
from .aligned import empty
from .candidates import Candidates
from .ladder import Ladder, rung
from .program import Program
from .programs import STATISTICS, Programs, Pushed
from .watch import Watch

STATISTIC_COLUMNS = [("slot", "uint16", 1), *((name, "uint32", 1) for name in STATISTICS)]
NUMBER = {name: number for number, (name, _, _) in enumerate(STATISTIC_COLUMNS)}
COUNTED = [NUMBER[name] for name in ("count", "shows", "clicks", "updates")]
MISSING = np.uint32(0xFFFFFFFF)
DUMP_ROWS = 1 << 16
DUMP_SLICES = 64

Floats = NDArray[np.float32]
Counts = NDArray[np.uint32]
Keys = NDArray[np.uint64]
Columns = dict[str, NDArray[np.generic]]
Mask = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


class BatchId(NamedTuple):
    """Which batch a push brings: the same after a replay, so that what is random, and what was counted, repeats.

    Attributes:
        epoch: of the driver; a later one shuts out the workers of a driver that died.
        pass_number, split, batch: numbers from 0; a batch's is its place within its split.
    """

    epoch: int = 0
    pass_number: int = 0
    split: int = 0
    batch: int = 0


class Touched(NamedTuple):
    """What a push says of its keys beside the gradients; arrays of one length n, keys unique.

    Attributes:
        keys: uint64[n].
        slots: uint16[n], the slot that each key belongs to.
        counts: uint32[n], occurrences in the batch.
        clicks: uint32[n], occurrences in examples with a positive label.
        time_seconds: newest TIME of the batch, seconds since 1970; 0 without TIME.
        batch: which batch it is.
        examples, positives: of the whole batch, whatever part of its keys this is.
    """

    keys: Keys
    slots: NDArray[np.uint16]
    counts: Counts
    clicks: Counts
    time_seconds: int
    batch: BatchId = BatchId()
    examples: int = 0
    positives: int = 0

    def only(self, chosen: Mask | NDArray[np.intp]) -> Touched:
        """Return what is said of some of the keys, by a mask or by their places."""
        arrays = {name: getattr(self, name)[chosen] for name in ("keys", "slots", "counts", "clicks")}
        return self._replace(**arrays)


class Read(NamedTuple):
    """What a table answers to a pull.

    Attributes:
        weights: float32[size, dim], as the chain reads them.
        updates: uint32[n]; None where the chain does not use them.
        offered: float32[size, k], what operators offer; None where they offer nothing.
        gone: bool[n], keys whose row has ended, for the tables that follow; None where rows do not end.
    """

    weights: Floats
    updates: Counts | None
    offered: Floats | None
    gone: Mask | None


class Gate(NamedTuple):
    """What the first table of a shard decides for the keys of a push, and the others follow.

    Attributes:
        fresh: bool[n], keys that had no row before this push, or one that had ended.
        shut: bool[n], keys that have none after it.
    """

    fresh: Mask
    shut: Mask


class RefusedError(Exception):
    """A row whose update an operator refused, with the order to fail."""

    def __init__(self, key: int, slot: int) -> None:
        self.key = key
        self.slot = slot
        super().__init__(f"key {key} of slot {slot}")


class Table:
    """Rows of one table on one shard. Its shard applies one push at a time; pulls go on while a push computes.

    Args:
        programs: the table's chain, jitted.
        first: the shard's first table; None: this is it.

    Attributes:
        lock: held while rows are read or written; the shard's tables share it.
        base_rate: mean label of all examples pushed so far; its shard sets it.
        watch: told the range of weights, where somebody asks for it.
        candidates: features without rows, where admission asks how often they occurred.
    """

    def __init__(self, programs: Programs, first: Table | None = None) -> None:
        self.programs = programs
        self.first = first
        self.lock: threading.RLock = threading.RLock() if first is None else first.lock
        self.watch: Watch | None = None
        self.candidates: Candidates | None = None
        self.store = Store([*STATISTIC_COLUMNS, *((name, "float32", dim) for name, dim in programs.dims.items())])
        self.since = 0
        self.base_rate = 0.0
        self._ladder = Ladder()
        self._numbers = NUMBER | {name: len(NUMBER) + i for i, name in enumerate(programs.stored)}

    def pull(self, keys: Keys, size: int, now: int, gone: Mask | None = None) -> Read:
        """Return the weights of keys as the chain reads them, the updates their rows have had, and what operators offer.

        Never creates a row: an absent key reads as a new row would start, zeros where the table has no init, so that features
        whose weights start at random are learned from the first batch they are in; zeros where rows need admission.

        Args:
            keys: uint64[n], unique.
            size: rows of the weights; those from n on are zeros.
            now: newest TIME pushed to the shard, seconds.
            gone: bool[n], keys whose row in the first table has ended, whose rows here read as absent too; None: none.
        """
        program = self.programs.pull
        with self.lock:
            given, rows = self._looked_up(program, keys, size)
            absent = rows == MISSING
            updates = None
            if "@seen" in self.programs.push.needs:
                updates = np.empty(len(keys), np.uint32)
                self.store.gather(rows, [NUMBER["updates"]], [updates])
        if gone is not None:
            self._blank(given, gone)
            absent |= gone
        if not self.programs.gated:
            self._start(given, keys, absent)
        if self.programs.pulls_stored:
            weights, offered, ended = given["w"], None, None
        else:
            self._rest(given, keys, absent, now)
            weights, offered, ended = program(given)
        if ended is not None:
            absent |= (ended := np.asarray(ended)[: len(keys)])
            gone = ended if self.first is None else gone
        if updates is not None:
            updates[absent] = 0
        return Read(np.asarray(weights), updates, None if offered is None else np.asarray(offered), gone)

    def push(
        self,
        touched: Touched,
        seen: Counts | None,
        pulled: Floats | None,
        gradients: Floats,
        now: int,
        gate: Gate | None = None,
    ) -> tuple[dict[str, float], Gate | None]:
        """Update the rows of a batch's keys, creating those that are new.

        Args:
            touched: the keys and what is known of them.
            seen: uint32[n], the updates as pulled; None where the chain does not use them.
            pulled: float32[size, dim], the weights as pulled; None where the chain does not use them.
            gradients: float32[size, dim], size >= n; the rest is ignored.
            now: newest TIME pushed to the shard, this push included, seconds.
            gate: what the first table has decided; None: this is the first, or it decides nothing.

        Returns:
            The sum over keys of each transient column of the chain, such as violations; the gate for the tables that follow.

        Raises:
            RefusedError: an operator set to fail on violations found one; nothing of the push is stored.
        """
        size, keys, program = len(gradients), touched.keys, self._push_program
        with self.lock:
            given, rows = self._looked_up(program, keys, size)
        new = rows == MISSING
        self._start(given, keys, new)
        self._rest(given, keys, new, now)
        self._tell(given, touched, seen)
        done: Pushed = program(given, {"@gradients": gradients, "@pulled": pulled})
        if (row := done.refused_row) is not None:
            raise refused(touched, row)
        columns = [np.asarray(done.columns[name]) for name in self.programs.stored]
        (created,) = new.nonzero()
        with self.lock:
            if len(created):
                rows[created], _ = self.store.insert(keys[created])
            self._store(rows, created, columns, touched, touched.counts, now)
        return self._report(done), None

    def load(self, keys: Keys, columns: Mapping[str, NDArray[np.generic]], since: int) -> None:
        """Put rows of an earlier version into the table; columns that the chain has and the version lacks start as new.

        Args:
            keys: uint64[n], unique.
            columns: name -> slot uint16[n], statistics uint32[n], float columns float32[n, dim].
            since: the TIME that the rows were brought up to when they were dumped.
        """
        self.since = since
        rows, _ = self.store.insert(keys)
        dims = self.programs.dims
        missing = {name: np.zeros((len(keys), dims[name]), np.float32) for name in dims.keys() - columns.keys()}
        self._start(missing, keys, np.ones(len(keys), np.bool_))
        for name, values in {**columns, **missing}.items():
            if name in self._numbers:
                self.store.scatter(rows, [self._numbers[name]], [np.ascontiguousarray(values)])

    def dump(self, now: int, slices: range) -> Iterator[tuple[Keys, Columns]]:
        """Iterate over the rows of some slices, ordered by key, in pieces, brought up to now.

        Yields:
            keys; slot, statistics, stored columns and weights `w` by name.
        """
        size = min(rung(len(self)), DUMP_ROWS)  # one for all pieces: a program for each would take longer than its work
        for start in range(slices.start, slices.stop, DUMP_SLICES):
            keys, rows = self.store.keys(start, min(slices.stop, start + DUMP_SLICES))
            for at in range(0, len(keys), size):
                yield self._piece(keys[at : at + size], rows[at : at + size], now, size)

    def visit(self, keys: Keys, rows: NDArray[np.uint32], size: int, now: int) -> Mask:
        """Return which of some rows have ended, bool[n], and tell the watch the range of the weights of the others.

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

    def __len__(self) -> int:
        return len(self.store)

    @property
    def memory_bytes(self) -> int:
        """Bytes in use."""
        return self.store.memory_bytes

    def _ended(self, keys: Keys, rows: NDArray[np.uint32], absent: Mask, size: int, now: int) -> Mask:
        """Return which keys have a row that has ended by this table's operators."""
        program = self.programs.ended
        if program is None:
            return np.zeros(len(keys), np.bool_)
        given = self._gathered(program, rows, size)
        self._rest(given, keys, absent, now)
        return np.asarray(program(given))[: len(keys)]

    def _piece(self, keys: Keys, rows: NDArray[np.uint32], now: int, size: int) -> tuple[Keys, Columns]:
        n, program = len(keys), self.programs.read
        columns: Columns = {name: np.empty(n, kind) for name, kind, _ in STATISTIC_COLUMNS}
        self.store.gather(rows, [NUMBER[name] for name in columns], list(columns.values()))
        given = self._gathered(program, rows, size)
        self._rest(given, keys, np.zeros(n, np.bool_), now)
        read = program(given)
        return keys, columns | {name: np.asarray(values)[:n] for name, values in read.items()}

    def _start(self, columns: Mapping[str, NDArray[Any]] | Arguments, keys: Keys, new: NDArray[np.bool_]) -> None:
        """Set float columns of new rows to their initial values, in place."""
        if self.programs.initial and new.any():
            rows = np.flatnonzero(new).astype(np.int32)
            self.programs.start(columns, split_keys(keys[rows], self._ladder.size(len(rows))), rows)

    def _looked_up(self, program: Program, keys: Keys, size: int) -> tuple[Arguments, NDArray[np.uint32]]:
        """Return the inputs of a program, its columns those of keys, padded with zeros to `size`; and the rows of keys."""
        given = program.prepared(size)
        return given, self.store.pull(keys, given)

    def _gathered(self, program: Program, rows: NDArray[np.uint32], size: int) -> Arguments:
        """Return the inputs of a program, its columns those of rows, padded with zeros to `size`."""
        given = program.prepared(size)
        self.store.gather_into(rows, given)
        return given

    def _blank(self, given: Arguments, chosen: Mask) -> None:
        """Set columns of the rows chosen to zero, in place: those of a row that has ended are still in memory."""
        if chosen.any():
            for name in self._numbers:
                if name in given:
                    given[name][: len(chosen)][chosen] = 0

    def _rest(self, given: Arguments, keys: Keys, mask: Mask, now: int) -> None:
        """Set the inputs of a program that are no columns."""
        numbers = {"@now": now, "@since": self.since, "@rows": len(mask), "@base_rate": self.base_rate}
        given.put({"@mask": mask, "@keys": keys, **numbers})

    @property
    def _push_program(self) -> Program:
        return self.programs.push if self.watch is None else self.programs.watched_push

    def _tell(self, given: Arguments, touched: Touched, seen: Counts | None) -> None:
        """Set the inputs of a program that a push brings."""
        counted = {"@counts": touched.counts, "@clicks": touched.clicks, "@seen": seen, "slot": touched.slots}
        given.put({**counted, **drawn(touched.batch)})

    def _report(self, done: Pushed) -> dict[str, float]:
        if self.watch is not None and done.bounds is not None:
            low, high = done.bounds
            self.watch.see(float(low), float(high))
        return {} if done.report is None else dict(zip(self.programs.transient, np.asarray(done.report).tolist(), strict=True))

    def _store(
        self,
        rows: NDArray[np.uint32],
        created: NDArray[np.intp],
        columns: Sequence[Floats],
        touched: Touched,
        counts: Counts,
        now: int,
    ) -> None:
        """Write what a push leaves of its rows, all of which exist.

        Args:
            created: where those are that it has created.
            columns: of those stored, float32[size, dim], size >= n.
            counts: uint32[n], added to the rows' counts.
        """
        numbers, newest = [self._numbers[name] for name in self.programs.stored], [NUMBER["last_seen"]] if now else []
        amounts: list[int | Counts] = [counts, touched.counts, touched.clicks, 1]
        self.store.update(rows, numbers, columns, COUNTED, amounts, newest, [now] * len(newest))
        if len(created):
            self.store.scatter(rows[created], [NUMBER["slot"]], [touched.slots[created]])


def split_keys(keys: Keys, size: int) -> Counts:
    """Return keys as uint32[size, 2], low and high half, zeros after the last: JAX has no 64-bit integers."""
    whole = empty((size, 2), np.uint32)
    whole[: len(keys)] = keys.view(np.uint32).reshape(-1, 2)
    whole[len(keys) :] = 0
    return whole


def drawn(batch: BatchId) -> dict[str, int]:
    """Return what a batch gives to draw from, as inputs of a program."""
    return {"@pass": batch.pass_number, "@split": batch.split, "@batch": batch.batch}


def refused(touched: Touched, row: int) -> RefusedError:
    return RefusedError(int(touched.keys[row]), int(touched.slots[row]))
