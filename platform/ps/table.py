"""A table of the parameter server: the rows of one kind of weights, and the chain of operators that updates them.

The native store holds the rows and knows no mathematics; the chain is JAX. A push gathers the rows of its keys, runs the chain
as one jitted function on arrays padded to a short ladder of sizes, and scatters the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._native import Store
from .ladder import Ladder
from .programs import STATISTICS, Program, Programs

STATISTIC_COLUMNS = [("slot", "uint16", 1), *((name, "uint32", 1) for name in STATISTICS)]
NUMBER = {name: number for number, (name, _, _) in enumerate(STATISTIC_COLUMNS)}
COUNTED = [NUMBER[name] for name in ("count", "shows", "clicks", "updates")]
MISSING = np.uint32(0xFFFFFFFF)
DUMP_ROWS = 1 << 18
DUMP_SLICES = 64

Floats = NDArray[np.float32]
Counts = NDArray[np.uint32]
Keys = NDArray[np.uint64]
Columns = dict[str, NDArray[np.generic]]


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


class RefusedError(Exception):
    """A row whose update an operator refused, with the order to fail."""

    def __init__(self, key: int, slot: int) -> None:
        self.key = key
        self.slot = slot
        super().__init__(f"key {key} of slot {slot}")


class Table:
    """Rows of one table on one shard. Not thread-safe: its shard applies one request at a time.

    Args:
        programs: the table's chain, jitted.

    Attributes:
        base_rate: mean label of all examples pushed so far; its shard sets it.
    """

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.store = Store([*STATISTIC_COLUMNS, *((name, "float32", dim) for name, dim in programs.dims.items())])
        self.since = 0
        self.base_rate = 0.0
        self._ladder = Ladder()
        self._numbers = NUMBER | {name: len(NUMBER) + i for i, name in enumerate(programs.stored)}

    def pull(self, keys: Keys, size: int, now: int) -> tuple[Floats, Counts, Floats | None]:
        """Return the weights of keys as the chain reads them, the updates their rows have had, and what operators offer.

        Never creates a row: an absent key reads as a new row would start, zeros where the table has no init, so that features
        whose weights start at random are learned from the first batch they are in.

        Args:
            keys: uint64[n], unique.
            size: rows of the weights; those from n on are zeros.
            now: newest TIME pushed to the shard, seconds.

        Returns:
            (float32[size, dim], uint32[n], float32[size, k]); the updates are zeros where the chain does not use them, the
            last is None where operators offer nothing.
        """
        program = self.programs.pull
        given = self._empty(program, len(keys), size)
        rows = self.store.pull(keys, [self._numbers[name] for name in given], list(given.values()))
        absent = rows == MISSING
        self._start(given, keys, absent)
        weights, offered = program({**given, **self._rest(program, keys, absent, size, now)})
        updates = np.zeros(len(keys), np.uint32)
        if "@seen" in self.programs.push.needs:
            self.store.gather(rows, [NUMBER["updates"]], [updates])
        return np.asarray(weights), updates, None if offered is None else np.asarray(offered)

    def push(self, touched: Touched, seen: Counts, pulled: Floats | None, gradients: Floats, now: int) -> dict[str, float]:
        """Update the rows of a batch's keys, creating those that are new.

        Args:
            touched: the keys and what is known of them.
            seen: uint32[n], the updates as pulled.
            pulled: float32[size, dim], the weights as pulled; None where the chain does not use them.
            gradients: float32[size, dim], size >= n; the rest is ignored.
            now: newest TIME pushed to the shard, this push included, seconds.

        Returns:
            The sum over keys of each transient column of the chain, such as violations.

        Raises:
            RefusedError: an operator set to fail on violations found one; nothing of the push is stored.
        """
        size, program = len(gradients), self.programs.push
        rows, created = self.store.insert(touched.keys)
        given = self._gathered(program, rows, size)
        self._start(given, touched.keys, created)
        given |= self._rest(program, touched.keys, created, size, now)
        pushed = {"@counts": touched.counts, "@clicks": touched.clicks, "@seen": seen}
        given |= {name: pad(values, size) for name, values in pushed.items() if name in program.needs}
        columns, report, failed = program({**given, "@gradients": gradients, "@pulled": pulled})
        if int(failed) >= 0:
            self.store.evict(touched.keys[created])
            raise RefusedError(int(touched.keys[int(failed)]), int(touched.slots[int(failed)]))
        stored = self.programs.stored
        self.store.scatter(rows, [self._numbers[name] for name in stored], [np.asarray(columns[name]) for name in stored])
        self._count(rows, created, touched, now)
        return {name: float(value) for name, value in report.items()}

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
        ladder = Ladder()
        for start in range(slices.start, slices.stop, DUMP_SLICES):
            keys, rows = self.store.keys(start, min(slices.stop, start + DUMP_SLICES))
            for at in range(0, len(keys), DUMP_ROWS):
                yield self._piece(keys[at : at + DUMP_ROWS], rows[at : at + DUMP_ROWS], now, ladder)

    def __len__(self) -> int:
        return len(self.store)

    def _piece(self, keys: Keys, rows: NDArray[np.uint32], now: int, ladder: Ladder) -> tuple[Keys, Columns]:
        n, program = len(keys), self.programs.read
        columns: Columns = {name: np.empty(n, kind) for name, kind, _ in STATISTIC_COLUMNS}
        self.store.gather(rows, [NUMBER[name] for name in columns], list(columns.values()))
        size = ladder.size(n)
        given = self._gathered(program, rows, size) | self._rest(program, keys, np.zeros(n, np.bool_), size, now)
        read = program(given)
        return keys, columns | {name: np.asarray(values)[:n] for name, values in read.items()}

    def _start(self, columns: Mapping[str, NDArray[Any]], keys: Keys, new: NDArray[np.bool_]) -> None:
        """Set float columns of new rows to their initial values, in place."""
        if self.programs.initial and new.any():
            rows = np.flatnonzero(new)
            self.programs.start(columns, split_keys(keys[rows], self._ladder.size(len(rows))), rows)

    def _empty(self, program: Program, n: int, size: int) -> dict[str, Any]:
        """Return arrays for the columns that a program needs, zeros from n on."""
        dims = self.programs.dims
        given: dict[str, NDArray[np.generic]] = {}
        for name in program.needs & self._numbers.keys():
            given[name] = np.empty((size, dims[name]), np.float32) if name in dims else np.empty(size, np.uint32)
            given[name][n:] = 0
        return given

    def _gathered(self, program: Program, rows: NDArray[np.uint32], size: int) -> dict[str, Any]:
        """Return the columns of rows that a program needs, padded with zeros to `size`."""
        given = self._empty(program, len(rows), size)
        self.store.gather(rows, [self._numbers[name] for name in given], list(given.values()))
        return given

    def _rest(self, program: Program, keys: Keys, mask: NDArray[np.bool_], size: int, now: int) -> dict[str, Any]:
        """Return the inputs of a program that are no columns."""
        padded_mask = np.zeros(size, np.bool_)
        padded_mask[: len(mask)] = mask
        given = {"@mask": padded_mask, "@now": np.uint32(now), "@since": np.uint32(self.since), "@rows": np.int32(len(mask))}
        given["@base_rate"] = np.float32(self.base_rate)
        return given | ({"@keys": split_keys(keys, size)} if "@keys" in program.needs else {})

    def _count(self, rows: NDArray[np.uint32], created: NDArray[np.bool_], touched: Touched, now: int) -> None:
        self.store.add(rows, COUNTED, [touched.counts, touched.counts, touched.clicks, 1])
        if created.any():
            self.store.scatter(rows[created], [NUMBER["slot"]], [touched.slots[created]])
        if now:
            self.store.maximum(rows, NUMBER["last_seen"], now)


def split_keys(keys: Keys, size: int) -> Counts:
    """Return keys as uint32[size, 2], low and high half, zeros after the last: JAX has no 64-bit integers."""
    halves = np.zeros((size, 2), np.uint32)
    halves[: len(keys)] = keys.view(np.uint32).reshape(-1, 2)
    return halves


def pad(values: Counts, size: int) -> Counts:
    padded = np.zeros(size, np.uint32)
    padded[: len(values)] = values
    return padded
