"""Snapshots of the row store, held against copies of a dict: each is the store at one moment, whatever happens meanwhile."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.ps.test_native_store import COLUMNS, COUNT, SLOT, V, blank, gathered, keys_list, random_keys
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.rows.base import NewRows, Rows

Model = dict[int, dict[str, np.ndarray]]


class SnapshotMachine(RuleBasedStateMachine):
    """Changes a store, takes snapshots of it bit by bit meanwhile, and puts those for a reader into another store, a chain."""

    new_rows: NewRows = Store
    new_restored: NewRows = Store

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).new_rows(COLUMNS)
        self.restored = [type(self).new_restored(COLUMNS) for _ in range(2)]
        self.model: Model = {}
        self.then: Model | None = None
        self.keys: list[int] = []
        self.gone = np.empty(0, np.uint64)
        self.known, self.reader = [False, False], 0

    @rule(keys=keys_list)
    def insert(self, keys: np.ndarray) -> None:
        self.store.insert(keys)
        for key in keys.tolist():
            self.model.setdefault(key, blank())

    @rule(start=st.integers(0, 2**64 - 4_000))
    def grow(self, start: int) -> None:
        self.insert(np.uint64(start) + np.arange(3000, dtype=np.uint64))

    @rule(keys=keys_list)
    def evict(self, keys: np.ndarray) -> None:
        self.store.evict(keys)
        for key in keys.tolist():
            self.model.pop(key, None)

    @rule(share=st.integers(2, 5))
    def evict_many(self, share: int) -> None:
        self.evict(np.array([key for key in self.model if key % share == 0], np.uint64))

    @rule(keys=keys_list, value=st.integers(0, 1000))
    def scatter(self, keys: np.ndarray, value: int) -> None:
        weights = (value + np.arange(len(keys) * 3)).astype(np.float32).reshape(-1, 3)
        slots = (value + np.arange(len(keys))).astype(np.uint16)
        self.store.scatter(self.store.lookup(keys), [V, SLOT], [weights, slots])
        for i, key in enumerate(keys.tolist()):
            if key in self.model:
                self.model[key] = self.model[key] | {"v": weights[i], "slot": slots[i : i + 1]}

    @rule(keys=keys_list, amount=st.integers(1, 9))
    def add(self, keys: np.ndarray, amount: int) -> None:
        self.store.update(self.store.lookup(keys), [], [], [COUNT], [amount], [], [])
        for key in keys.tolist():
            if key in self.model:
                self.model[key] = self.model[key] | {"count": self.model[key]["count"] + np.uint32(amount)}

    @precondition(lambda self: self.then is None)
    @rule(full=st.booleans(), reader=st.sampled_from([0, 0, 1]))
    def begin(self, full: bool, reader: int) -> None:
        pending = self.store.pending(reader)
        self.gone, whole = self.store.begin_snapshot(full, reader)
        assert whole == (full or not self.known[reader])
        self.pending = len(self.model) if whole else pending
        if whole:
            self.restored[reader] = type(self).new_restored(COLUMNS)
            assert not len(self.gone)
        self.then, self.keys, self.known[reader], self.reader = copy.copy(self.model), [], True, reader
        self.restored[reader].evict(self.gone)

    @precondition(lambda self: self.then is not None)
    @rule(rows=st.sampled_from([1, 7, 500, 5000]))
    def take(self, rows: int) -> None:
        assert self.then is not None
        records = np.empty((rows, self.store.row_bytes), np.uint8)
        taken = self.store.take(records)
        if not taken:
            self.finish()
            return
        self.restored[self.reader].put(records[:taken])
        self.keys += records[:taken, :8].copy().view(np.uint64)[:, 0].tolist()

    @precondition(lambda self: self.then is not None)
    @rule()
    def take_the_rest(self) -> None:
        while self.then is not None:
            self.take(300)

    @precondition(lambda self: self.then is not None)
    @rule()
    def cancel(self) -> None:
        self.store.cancel_snapshot()
        self.then, self.known[self.reader] = None, False

    def finish(self) -> None:
        assert self.then is not None
        restored = self.restored[self.reader]
        keys, rows = restored.keys()
        assert keys.tolist() == sorted(self.then)
        for name, values in gathered(restored, rows).items():
            expected = np.array([self.then[key][name] for key in keys.tolist()], values.dtype).reshape(values.shape)
            assert np.array_equal(values, expected)
        assert len(set(self.keys)) == len(self.keys) == self.pending
        assert self.store.kept_bytes == 0
        self.then = None


SnapshotMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestSnapshotIsTheStoreAtOneMoment = SnapshotMachine.TestCase


def taken(store: Rows, rows: int = 4096) -> np.ndarray:
    """Return all that is left of a snapshot."""
    parts, piece = [], np.empty((rows, store.row_bytes), np.uint8)
    while count := store.take(piece):
        parts.append(piece[:count].copy())
    return np.concatenate(parts) if parts else piece[:0]


def test_an_incremental_snapshot_has_only_what_changed() -> None:
    store, keys = Store([("w", "float32", 1)]), random_keys(10_000)
    store.insert(keys)
    store.begin_snapshot(False)
    assert len(taken(store)) == 10_000
    store.scatter(store.lookup(keys[:100]), [0], [np.full((100, 1), 2, np.float32)])
    store.insert(random_keys(50, seed=2))
    store.evict(keys[90:95])
    gone, full = store.begin_snapshot(False)
    assert (gone.tolist(), full) == (keys[90:95].tolist(), False)
    assert len(taken(store)) == 145


def test_after_many_evictions_a_snapshot_is_full() -> None:
    store = Store([("w", "float32", 1)])
    store.begin_snapshot(True)
    assert not len(taken(store))
    for seed in range(20):
        store.insert(random_keys(10_000, seed))
        store.evict(random_keys(10_000, seed))
    store.insert(random_keys(10))
    gone, full = store.begin_snapshot(False)
    assert (len(gone), full) == (0, True)
    assert len(taken(store)) == 10


def test_only_one_snapshot_is_taken_at_a_time() -> None:
    store = Store([("w", "float32", 1)])
    store.begin_snapshot(True)
    with pytest.raises(RuntimeError, match="a snapshot is being taken"):
        store.begin_snapshot(True)


def test_a_store_keeps_only_rows_that_change_before_they_are_taken() -> None:
    store, keys = Store([("w", "float32", 16)]), random_keys(100_000)
    rows, _ = store.insert(keys)
    before = store.memory_bytes
    store.begin_snapshot(True)
    assert store.memory_bytes - before < 100_000
    for value in (1, 2):
        store.scatter(rows[:5000], [0], [np.full((5000, 16), value, np.float32)])
    assert store.kept_bytes == 5000 * store.row_bytes
    assert len(taken(store)) == 100_000
    assert store.kept_bytes == 0
    assert store.memory_bytes - before < 100_000


def test_records_of_another_length_are_refused() -> None:
    store = Store([("w", "float32", 1)])
    with pytest.raises(ValueError, match="records must be"):
        store.put(np.zeros((1, store.row_bytes + 8), np.uint8))
    assert store.layout == [("w", "float32", 1, 8)]
