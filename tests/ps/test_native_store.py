"""The row store, held against a dict."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.cases import costly, lengthy
from xpsql.platform.ps._native import Arguments, Layout, Store, set_threads
from xpsql.platform.ps.rows.base import NewRows, Rows

MISSING = 0xFFFFFFFF
COLUMNS = [("slot", "uint16", 1), ("w", "float32", 1), ("count", "uint32", 1), ("v", "float32", 3)]
SLOT, W, COUNT, V = range(4)
LAYOUT = Layout([("@now", "uint32", ())], [("count", "uint32", (1,))], [("@mask", "bool", ()), ("v", "float32", (3,))])

# Few distinct keys, so that they meet again; small ones share a slice and grow it, the others differ in their top bits.
keys_list = st.lists(
    st.one_of(
        st.integers(0, 300),
        st.integers(0, 40).map(lambda k: k << 54),
        st.integers(0, 40).map(lambda k: (k * 0x9E3779B97F4A7C15) % 2**64),
        st.just(2**64 - 1),
    ),
    max_size=80,
    unique=True,
).map(lambda keys: np.array(keys, np.uint64))


def blank() -> dict[str, np.ndarray]:
    return {name: np.zeros(dim, dtype) for name, dtype, dim in COLUMNS}


def gathered(store: Rows, rows: np.ndarray) -> dict[str, np.ndarray]:
    outs = [np.full((len(rows), dim), 7, dtype) for _, dtype, dim in COLUMNS]
    store.gather(rows, list(range(len(COLUMNS))), outs)
    return {name: out for (name, _, _), out in zip(COLUMNS, outs, strict=True)}


class StoreMachine(RuleBasedStateMachine):
    """Does the same to rows and to a dict."""

    new_rows: NewRows = Store

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).new_rows(COLUMNS)
        self.model: dict[int, dict[str, np.ndarray]] = {}

    @rule(keys=keys_list)
    def insert(self, keys: np.ndarray) -> None:
        rows, created = self.store.insert(keys)
        assert created.tolist() == [key not in self.model for key in keys.tolist()]
        assert len(set(rows.tolist())) == len(keys)
        for key in keys.tolist():
            self.model.setdefault(key, blank())

    @rule(start=st.integers(0, 2**64 - 40_000), step=st.sampled_from([1, 3, 0x9E3779B97F4A7C15]))
    def grow(self, start: int, step: int) -> None:
        keys = np.uint64(start) + np.arange(3000, dtype=np.uint64) * np.uint64(step)
        self.store.insert(keys)
        for key in keys.tolist():
            self.model.setdefault(key, blank())

    @rule(keys=keys_list)
    def evict(self, keys: np.ndarray) -> None:
        assert self.store.evict(keys) == sum(self.model.pop(key, None) is not None for key in keys.tolist())

    @rule(share=st.integers(2, 9))
    def evict_many(self, share: int) -> None:
        keys = [key for key in self.model if key % share == 0]
        assert self.store.evict(np.array(keys, np.uint64)) == len(keys)
        for key in keys:
            del self.model[key]

    @rule(step=st.sampled_from([1, 7, 1000]))
    def scan(self, step: int) -> None:
        parts = [self.store.scan(begin, begin + step) for begin in range(0, self.store.end, step)]
        assert all((self.store.lookup(keys) == rows).all() for keys, rows in parts)
        assert sorted(key for keys, _ in parts for key in keys.tolist()) == sorted(self.model)

    @rule(keys=keys_list, value=st.integers(0, 1000))
    def scatter(self, keys: np.ndarray, value: int) -> None:
        weights = (value + np.arange(len(keys) * 3)).astype(np.float32).reshape(-1, 3)
        slots = (value + np.arange(len(keys))).astype(np.uint16)
        self.store.scatter(self.store.lookup(keys), [V, SLOT], [weights, slots])
        for i, key in enumerate(keys.tolist()):
            if key in self.model:
                self.model[key]["v"], self.model[key]["slot"] = weights[i], slots[i : i + 1]

    @rule(keys=keys_list, amount=st.integers(0, 2**32 - 1))
    def add(self, keys: np.ndarray, amount: int) -> None:
        self.store.update(self.store.lookup(keys), [], [], [COUNT], [np.full(len(keys), amount, np.uint32)], [], [])
        for key in keys.tolist():
            if key in self.model:
                total = min(int(self.model[key]["count"][0]) + amount, 2**32 - 1)
                self.model[key]["count"] = np.array([total], np.uint32)

    @rule(keys=keys_list, value=st.integers(0, 2**32 - 1))
    def maximum(self, keys: np.ndarray, value: int) -> None:
        self.store.update(self.store.lookup(keys), [], [], [], [], [COUNT], [value])
        for key in keys.tolist():
            if key in self.model:
                self.model[key]["count"] = np.maximum(self.model[key]["count"], np.uint32(value))

    @rule(keys=keys_list)
    def read(self, keys: np.ndarray) -> None:
        rows = self.store.lookup(keys)
        assert (rows != MISSING).tolist() == [key in self.model for key in keys.tolist()]
        self.compare(keys, gathered(self.store, rows))
        arguments = Arguments(LAYOUT, len(keys) + 2)
        assert np.array_equal(self.store.pull(keys, arguments), rows)
        self.compare_arguments(arguments, rows)
        arguments = Arguments(LAYOUT, len(keys) + 1)
        self.store.gather_into(rows, arguments)
        self.compare_arguments(arguments, rows)

    def compare_arguments(self, arguments: Arguments, rows: np.ndarray) -> None:
        for name in ("v", "count"):
            values = arguments[name]
            assert np.array_equal(values[: len(rows)], gathered(self.store, rows)[name])
            assert not values[len(rows) :].any()

    @rule(begin=st.integers(0, 1024), end=st.integers(0, 1024))
    def iterate(self, begin: int, end: int) -> None:
        begin, end = min(begin, end), max(begin, end)
        keys, rows = self.store.keys(begin, end)
        assert keys.tolist() == sorted(key for key in self.model if begin <= key >> 54 < end)
        assert np.array_equal(self.store.lookup(keys), rows)

    @invariant()
    def sizes_agree(self) -> None:
        assert len(self.store) == len(self.model)

    def teardown(self) -> None:
        keys, rows = self.store.keys()
        assert keys.tolist() == sorted(self.model)
        self.compare(keys, gathered(self.store, rows))

    def compare(self, keys: np.ndarray, found: dict[str, np.ndarray]) -> None:
        expected = [self.model.get(key, blank()) for key in keys.tolist()]
        for name, values in found.items():
            assert np.array_equal(values, np.array([row[name] for row in expected]).reshape(values.shape))


StoreMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestStoreAgreesWithDict = StoreMachine.TestCase


def random_keys(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


@costly
def test_overhead_is_at_most_16_bytes_a_row_on_average_over_sizes() -> None:
    store = Store([("w", "float32", 4)])
    overheads = []
    for part in np.split(random_keys(8_000_000), 160):
        store.insert(part)
        overheads.append(store.overhead_bytes / len(store))
    assert np.mean(overheads[20:]) <= 16
    assert store.row_bytes == 24
    assert store.memory_bytes == store.overhead_bytes + 16 * len(store)


def test_evicted_rows_are_used_again() -> None:
    store = Store([("w", "float32", 1)])
    for seed in range(5):
        keys = random_keys(10_000, seed)
        rows, created = store.insert(keys)
        assert created.all()
        assert rows.max() < 10_000
        assert store.evict(keys) == 10_000


def test_a_row_that_is_used_again_starts_from_zeros() -> None:
    store = Store([("w", "float32", 2)])
    rows, _ = store.insert(np.array([1], np.uint64))
    store.scatter(rows, [0], [np.full((1, 2), 3.5, np.float32)])
    store.evict(np.array([1], np.uint64))
    rows, _ = store.insert(np.array([2], np.uint64))
    out = np.ones((1, 2), np.float32)
    store.gather(rows, [0], [out])
    assert not out.any()


def test_a_dump_does_not_depend_on_the_order_of_insertion() -> None:
    keys = random_keys(20_000)
    one, other = Store([("w", "float32", 1)]), Store([("w", "float32", 1)])
    one.insert(keys)
    other.insert(random_keys(5_000, seed=2))
    other.insert(keys[::-1].copy())
    other.evict(random_keys(5_000, seed=2))
    assert np.array_equal(one.keys()[0], other.keys()[0])


def test_gather_writes_only_the_first_rows_of_a_longer_array() -> None:
    store = Store([("w", "float32", 2)])
    rows, _ = store.insert(np.array([5, 6], np.uint64))
    out = np.full((4, 2), 9, np.float32)
    store.gather(rows, [0], [out])
    assert out.tolist() == [[0, 0], [0, 0], [9, 9], [9, 9]]


def test_arrays_of_jax_are_taken_without_a_copy_into_numpy() -> None:
    store = Store([("w", "float32", 2)])
    rows, _ = store.insert(np.array([5], np.uint64))
    store.scatter(rows, [0], [jnp.array([[1.5, 2.5]], jnp.float32)])
    out = np.empty((1, 2), np.float32)
    store.gather(rows, [0], [out])
    assert out.tolist() == [[1.5, 2.5]]


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 8, 16, 17, 100])
def test_columns_of_any_dim_come_back_as_they_were_stored(dim: int) -> None:
    store = Store([("slot", "uint16", 1), ("w", "float32", dim)])
    rows, _ = store.insert(random_keys(1000))
    values = np.random.default_rng(0).normal(size=(1000, dim)).astype(np.float32)
    store.scatter(rows, [1], [values])
    out = np.empty_like(values)
    store.gather(rows, [1], [out])
    assert np.array_equal(out, values)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda s: s.lookup(np.zeros(3, np.int64)),
            TypeError,
            r"keys must be a C-contiguous array uint64\[n\], got int64\[3\]",
        ),
        (lambda s: s.lookup(np.zeros((3, 1), np.uint64)), ValueError, r"got uint64\[3, 1\]"),
        (lambda s: s.lookup(np.zeros(6, np.uint64)[::2]), ValueError, "C-contiguous"),
        (lambda s: s.gather(np.zeros(1, np.uint32), [0], [np.zeros((1, 2), np.float32)]), IndexError, "row 0 does not exist"),
        (
            lambda s: s.gather(np.zeros(0, np.uint32), [3], [np.zeros((1, 2), np.float32)]),
            IndexError,
            "column 3 does not exist",
        ),
        (
            lambda s: s.gather(np.zeros(2, np.uint32), [0], [np.zeros((1, 2), np.float32)]),
            ValueError,
            r"w must be .* float32\[2, 2\]",
        ),
        (lambda s: s.gather(np.zeros(1, np.uint32), [0], [np.zeros((1, 2), np.float64)]), TypeError, "float64"),
        (lambda s: s.gather(np.zeros(1, np.uint32), [0, 1], [np.zeros((1, 2), np.float32)]), ValueError, "2 columns, got 1"),
        (lambda s: s.update(np.zeros(1, np.uint32), [], [], [0], [1], [], []), TypeError, "w must be uint32 of dim 1"),
        (lambda s: s.keys(5, 1025), ValueError, "slices must be a range"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(call, error, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call(Store([("w", "float32", 2), ("count", "uint32", 1)]))


@pytest.mark.parametrize("columns", [[("w", "float64", 1)], [("w", "float32", 0)]])
def test_columns_that_cannot_be_held_are_refused(columns: list[tuple[str, str, int]]) -> None:
    with pytest.raises(ValueError, match="column w must"):
        Store(columns)


def test_read_only_memory_is_not_written_to() -> None:
    store = Store([("w", "float32", 1)])
    rows, _ = store.insert(np.array([1], np.uint64))
    out = np.zeros((1, 1), np.float32)
    out.flags.writeable = False
    with pytest.raises(TypeError):
        store.gather(rows, [0], [out])


@lengthy
def test_memory_that_ends_is_a_memory_error_and_the_store_goes_on() -> None:
    program = """
        import resource, numpy as np
        from xpsql.platform.ps._native import Store
        store = Store([("w", "float32", 64)])
        resource.setrlimit(resource.RLIMIT_AS, (1 << 29, resource.RLIM_INFINITY))
        keys = np.random.default_rng(0).integers(0, 2**64, 4_000_000, dtype=np.uint64)
        try:
            for part in np.split(keys, 40):
                store.insert(part)
        except MemoryError:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            found, rows = store.keys()
            assert len(found) == len(store) > 0
            assert (store.lookup(found) == rows).all()
            print("refused")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "refused\n"


def test_rows_that_come_and_go_for_long_leave_every_probe_an_end() -> None:
    store, held = Store([("w", "float32", 1)]), []
    for seed in range(60):
        held.append(np.random.default_rng(seed).integers(0, 2**64, 8192, np.uint64))
        store.insert(held[-1])
        if len(held) > 4:
            assert store.evict(held.pop(0)) == 8192
    for keys in held:
        assert (store.lookup(keys) != MISSING).all()
    assert (store.lookup(np.random.default_rng(99).integers(0, 2**64, 8192, np.uint64)) == MISSING).all()


def test_threads_leave_the_rows_that_one_leaves() -> None:
    random = np.random.default_rng(2)
    keys = np.unique(random.integers(0, 2**64, 60_000, np.uint64))
    batches = [random.choice(keys, 9000, replace=False) for _ in range(12)]

    def changed(threads: int) -> list[np.ndarray]:
        set_threads(threads)
        store, found = Store(COLUMNS), []
        for number, batch in enumerate(batches):
            given = Arguments(LAYOUT, 9100)
            rows = store.pull(batch, given)
            found += [rows, given["v"].copy(), given["count"].copy()]
            new = np.flatnonzero(rows == MISSING)
            rows[new], _ = store.insert(batch[new])
            v = given["v"][: len(batch)] + batch[:, None].astype(np.float32) + np.float32(number)
            store.update(rows, [V], [v], [COUNT], [np.arange(len(batch), dtype=np.uint32)], [], [])
            store.scatter(rows[new], [SLOT], [batch[new].astype(np.uint16)])
            found.append(store.lookup(batch))
            if number == 6:
                store.begin_snapshot(True, 0)  # from now on it tracks what changes
        return [*found, *gathered(store, store.lookup(keys)).values(), np.array(store.pending(0))]

    try:
        one = changed(1)
        for threads in (2, 4):
            for own, other in zip(one, changed(threads), strict=True):
                np.testing.assert_array_equal(own, other)
    finally:
        set_threads(1)
