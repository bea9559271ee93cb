"""A table of the parameter server: the rows of one kind of weights, and the chain of operators that updates them.

The native store holds the rows and knows no mathematics; the chain is JAX. A push gathers the rows of its keys, runs the chain
as one jitted function on arrays padded to a short ladder of sizes, and scatters the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..operators.base import Context, Operator, Rows, TableSpec, push
from ._native import Store
from .ladder import rung

STATISTICS = ("slot", "count", "updates", "shows", "clicks", "last_seen")
DTYPES = ("uint16", "uint32", "uint32", "uint32", "uint32", "uint32")
SLOT, COUNT, UPDATES, SHOWS, CLICKS, LAST_SEEN = range(len(STATISTICS))
DUMP_ROWS = 1 << 18

Floats = NDArray[np.float32]
Counts = NDArray[np.uint32]
Keys = NDArray[np.uint64]


class Touched(NamedTuple):
    """What a push says of its keys beside the gradients; arrays of one length n, keys unique.

    Attributes:
        keys: uint64[n].
        slots: uint16[n], the slot that each key belongs to.
        counts: uint32[n], occurrences in the batch.
        clicks: uint32[n], occurrences in examples with a positive label.
        seen: uint32[n], updates of the row when it was pulled.
        time_seconds: newest TIME of the batch, seconds since 1970; 0 without TIME.
    """

    keys: Keys
    slots: NDArray[np.uint16]
    counts: Counts
    clicks: Counts
    seen: Counts
    time_seconds: int


class RefusedError(Exception):
    """A row whose update an operator refused, with the order to fail."""

    def __init__(self, key: int, slot: int) -> None:
        self.key = key
        self.slot = slot
        super().__init__(f"key {key} of slot {slot}")


class Table:
    """Rows of one table on one shard. Not thread-safe: its shard applies one request at a time.

    Args:
        spec: name, floats per row, initial weights.
        chain: the composed operators, ending with the optimizer.
        seed: of everything random.
    """

    def __init__(self, spec: TableSpec, chain: Operator, seed: int) -> None:
        self.spec = spec
        self.chain = chain
        self.seed = seed
        self.stored = tuple(name for name, column in chain.columns.items() if not column.transient)
        self.transient = tuple(name for name, column in chain.columns.items() if column.transient)
        floats = [(name, "float32", chain.columns[name].dim) for name in self.stored]
        self.store = Store([(name, dtype, 1) for name, dtype in zip(STATISTICS, DTYPES, strict=True)] + floats)
        self.numbers = [len(STATISTICS) + i for i in range(len(self.stored))]
        self.since = 0
        self._push = jax.jit(self._run_push)
        self._pull = jax.jit(self._run_pull)
        self._read = jax.jit(self._run_read)

    def pull(self, keys: Keys, size: int, now: int) -> tuple[Floats, Counts]:
        """Return the weights of keys as the chain reads them, and the updates their rows have had.

        Never creates a row: an absent key reads as zeros.

        Args:
            keys: uint64[n], unique.
            size: rows of the result; those from n on are zeros.
            now: newest TIME pushed to the shard, seconds.

        Returns:
            (float32[size, dim], uint32[size])
        """
        rows = self.store.lookup(keys)
        columns = self._gather(rows, size)
        statistics = self._statistics(rows, size)
        present = np.zeros(size, np.bool_)
        present[: len(rows)] = rows != MISSING
        weights = self._pull(columns, statistics, split_keys(keys, size), present, self._times(now))
        return np.asarray(weights), statistics[UPDATES - 1]

    def push(self, touched: Touched, gradients: Floats, now: int) -> dict[str, float]:
        """Update the rows of a batch's keys, creating those that are new.

        Args:
            touched: the keys and what is known of them.
            gradients: float32[size, dim], size >= n; the rest is ignored.
            now: newest TIME pushed to the shard, this push included, seconds.

        Returns:
            The sum over keys of each transient column of the chain, such as violations.

        Raises:
            RefusedError: an operator set to fail on violations found one; nothing of the push is stored.
        """
        size, n = len(gradients), len(touched.keys)
        rows, created = self.store.insert(touched.keys)
        new = np.zeros(size, np.bool_)
        new[:n] = created
        columns, report, failed = self._push(
            gradients,
            self._gather(rows, size),
            self._statistics(rows, size),
            split_keys(touched.keys, size),
            tuple(pad(a, size) for a in (touched.counts, touched.clicks, touched.seen)),
            new,
            np.int32(n),
            self._times(now),
        )
        if int(failed) >= 0:
            self.store.evict(touched.keys[created])
            raise RefusedError(int(touched.keys[int(failed)]), int(touched.slots[int(failed)]))
        self.store.scatter(rows, self.numbers, [np.asarray(columns[name]) for name in self.stored])
        self._count(rows, created, touched, now)
        return {name: float(value) for name, value in report.items()}

    def load(
        self, keys: Keys, statistics: Mapping[str, NDArray[np.generic]], columns: Mapping[str, NDArray[np.generic]], since: int
    ) -> None:
        """Put rows of an earlier version into the table; columns that the chain has and the version lacks start as new.

        Args:
            keys: uint64[n], unique.
            statistics: name -> integers [n].
            columns: name -> float32[n, dim].
            since: the TIME that the rows were brought up to when they were dumped.
        """
        self.since = since
        rows, _ = self.store.insert(keys)
        for number, (name, dtype) in enumerate(zip(STATISTICS, DTYPES, strict=True)):
            self.store.scatter(rows, [number], [np.ascontiguousarray(statistics[name], dtype=dtype)])
        halves = split_keys(keys, len(keys))
        for name, number in zip(self.stored, self.numbers, strict=True):
            init = self.chain.columns[name].init
            values = columns.get(name)
            if values is None and init is not None:
                values = np.asarray(init(self.seed, jnp.asarray(halves)))
            if values is not None:
                self.store.scatter(rows, [number], [np.ascontiguousarray(values, dtype=np.float32)])

    def dump(self, now: int) -> Iterator[tuple[Keys, dict[str, NDArray[np.generic]]]]:
        """Iterate over rows, ordered by key, in pieces: keys; statistics, columns and weights `w`, brought up to now."""
        for start in range(0, 1024, 64):
            keys, rows = self.store.keys(start, start + 64)
            for at in range(0, len(keys), DUMP_ROWS):
                yield self._piece(keys[at : at + DUMP_ROWS], rows[at : at + DUMP_ROWS], now)

    def __len__(self) -> int:
        return len(self.store)

    def _piece(self, keys: Keys, rows: NDArray[np.uint32], now: int) -> tuple[Keys, dict[str, NDArray[np.generic]]]:
        n, size = len(keys), rung(len(keys))
        statistics = self._statistics(rows, size)
        slots = np.empty(n, np.uint16)
        self.store.gather(rows, [SLOT], [slots])
        read = self._read(self._gather(rows, size), statistics, split_keys(keys, size), np.arange(size) < n, self._times(now))
        values: dict[str, NDArray[np.generic]] = {"slot": slots}
        values |= {name: column[:n] for name, column in zip(STATISTICS[1:], statistics, strict=True)}
        return keys, values | {name: np.asarray(column)[:n] for name, column in read.items()}

    def _times(self, now: int) -> tuple[np.uint32, np.uint32]:
        return np.uint32(now), np.uint32(self.since)

    def _gather(self, rows: NDArray[np.uint32], size: int) -> dict[str, Floats]:
        columns = {name: np.empty((size, self.chain.columns[name].dim), np.float32) for name in self.stored}
        self.store.gather(rows, self.numbers, list(columns.values()))
        for values in columns.values():
            values[len(rows) :] = 0
        return columns

    def _statistics(self, rows: NDArray[np.uint32], size: int) -> tuple[Counts, ...]:
        """Gather count, updates, shows, clicks and last_seen."""
        values = tuple(np.empty(size, np.uint32) for _ in STATISTICS[1:])
        self.store.gather(rows, list(range(COUNT, LAST_SEEN + 1)), list(values))
        for column in values:
            column[len(rows) :] = 0
        return values

    def _count(self, rows: NDArray[np.uint32], created: NDArray[np.bool_], touched: Touched, now: int) -> None:
        self.store.add(rows, COUNT, touched.counts)
        self.store.add(rows, SHOWS, touched.counts)
        self.store.add(rows, CLICKS, touched.clicks)
        self.store.add(rows, UPDATES, np.ones(len(rows), np.uint32))
        self.store.scatter(rows[created], [SLOT], [np.ascontiguousarray(touched.slots[created])])
        if now:
            self.store.maximum(rows, LAST_SEEN, np.full(len(rows), now, np.uint32))

    def _run_push(
        self,
        gradients: jax.Array,
        columns: dict[str, jax.Array],
        statistics: tuple[jax.Array, ...],
        keys: jax.Array,
        touched: tuple[jax.Array, ...],
        new: jax.Array,
        n: jax.Array,
        times: tuple[jax.Array, jax.Array],
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array], jax.Array]:
        counts, clicks, seen = touched
        valid = jnp.arange(len(new)) < n
        updates = statistics[UPDATES - 1]
        stale = updates - jnp.minimum(seen, updates)
        context = Context(valid, keys, counts, counts, clicks, updates, stale, age(statistics, times, new), new)
        rows: Rows = {**started(columns, self.chain, self.seed, keys, new), **named(statistics)}
        stored, transient = push(self.chain, rows, jnp.where(valid[:, None], gradients, 0), context)
        failed = transient.get("failed", jnp.zeros((1, 1)))[:, 0]
        first = jnp.where(failed.any(), jnp.argmax(failed), -1)
        return dict(stored), {name: values.sum() for name, values in transient.items()}, first

    def _run_pull(self, *stored: Any) -> jax.Array:
        return self._run_read(*stored)["w"]

    def _run_read(
        self,
        columns: dict[str, jax.Array],
        statistics: tuple[jax.Array, ...],
        keys: jax.Array,
        present: jax.Array,
        times: tuple[jax.Array, jax.Array],
    ) -> dict[str, jax.Array]:
        """Return the stored columns and w as the chain reads them, zeros where a row is absent."""
        none = jnp.zeros(len(present), jnp.uint32)
        context = Context(
            present, keys, none, none, none, statistics[UPDATES - 1], none, age(statistics, times, ~present), ~present
        )
        rows = self.chain.read({**columns, **named(statistics)}, context)
        return {name: jnp.where(present[:, None], rows[name], 0) for name in (*self.stored, "w")}


MISSING = np.uint32(0xFFFFFFFF)


def age(statistics: tuple[jax.Array, ...], times: tuple[jax.Array, jax.Array], new: jax.Array) -> jax.Array:
    """Return the seconds since each row was last brought up to date; 0 for new rows and without TIME.

    Args:
        times: the newest TIME pushed, and the TIME that all rows of a loaded version were brought up to.
    """
    now, since = times
    last = statistics[LAST_SEEN - 1]
    return jnp.where(new | (last == 0), 0, now - jnp.minimum(jnp.maximum(last, since), now)).astype(jnp.float32)


def named(statistics: tuple[jax.Array, ...]) -> dict[str, jax.Array]:
    return dict(zip(STATISTICS[1:], statistics, strict=True))


def started(columns: dict[str, jax.Array], chain: Operator, seed: int, keys: jax.Array, new: jax.Array) -> dict[str, jax.Array]:
    """Return the columns with those of new rows at their initial values."""
    inits = {name: column.init for name, column in chain.columns.items()}
    return {
        name: values if (init := inits[name]) is None else jnp.where(new[:, None], init(seed, keys), values)
        for name, values in columns.items()
    }


def split_keys(keys: Keys, size: int) -> Counts:
    """Return keys as uint32[size, 2], low and high half, zeros after the last: JAX has no 64-bit integers."""
    halves = np.zeros((size, 2), np.uint32)
    halves[: len(keys)] = keys.view(np.uint32).reshape(-1, 2)
    return halves


def pad(values: Counts, size: int) -> Counts:
    padded = np.zeros(size, np.uint32)
    padded[: len(values)] = values
    return padded
