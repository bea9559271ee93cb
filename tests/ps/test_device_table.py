"""Tables on a device, which is the CPU here: a shard on them is one on the native store, whatever chain, snapshot or memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cases import costly
from tests.ps.test_device_rows import device
from tests.ps.test_remote_client import VECTORS, WEIGHTS, random_keys
from xpsql.algorithms.layers.initial import uniform
from xpsql.platform.errors import TrainingError
from xpsql.platform.operators.adagrad import AdagradOptions, adagrad
from xpsql.platform.operators.base import TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.operators.safety import SafetyOptions, safety
from xpsql.platform.operators.staleness_discount import StalenessDiscountOptions, staleness_discount
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.compiled.row_programs import RowPrograms
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.device_table import DeviceTable
from xpsql.platform.ps.keys import NUM_SLICES
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import BatchId, Push, Touched
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.table import Table

STARTED = TableSpec("started", 8, uniform(0.05, 8))
STRICT = safety(SafetyOptions(max_gradient=5.0, on_violation="fail"), WEIGHTS)
PROGRAMS = (
    Programs(WEIGHTS, chain(STRICT, ftrl(FtrlOptions(), WEIGHTS)), 7),
    Programs(VECTORS, chain(staleness_discount(StalenessDiscountOptions(), VECTORS), adagrad(AdagradOptions(), VECTORS)), 7),
    Programs(STARTED, chain(adagrad(AdagradOptions(), STARTED)), 7),
)
NO_DENSE = DenseProgram((), None, 7)
ON_CARD = device().platform == "gpu"
SIZE = 320
"""What batches are padded to: one program for all."""
NEAR = 1e-5 if ON_CARD else 0.0
"""So far a card's arithmetic may be from the CPU's; on the CPU they are equal bit for bit."""


def shard(rows: int | None = None, most_bytes: int | None = None) -> Shard:
    """Return a shard on the native store, or on a device that has room for so many rows at first."""

    def new_table(programs: RowPrograms, first: Table | None) -> Table:
        return DeviceTable(programs, device(), most_bytes, first, rows or 0)

    return Shard(tables_of(PROGRAMS, Store, new_table if rows else None), NO_DENSE.part(0, 1), str)


def batches(count: int, features: int, seed: int = 3) -> list[NDArray[np.uint64]]:
    pool, random = random_keys(features, seed), np.random.default_rng(seed)
    return [random.choice(pool, int(random.integers(1, min(300, features))), replace=False) for _ in range(count)]


def pushed(to: Shard, keys: NDArray[np.uint64], number: int) -> dict[str, Any]:
    """Pull, and push what depends on the number of the batch alone; return what was pulled."""
    size, n, random = SIZE, len(keys), np.random.default_rng(number)
    pulled = to.pull(keys, size)
    gradients = {p.spec.name: random.normal(size=(size, p.spec.dim)).astype(np.float32) for p in PROGRAMS}
    counts = random.integers(1, 9, n).astype(np.uint32)
    touched = Touched(
        keys, random.integers(1, 4, n).astype(np.uint16), counts, counts // 2, 1000 + number, BatchId(batch=number), n
    )
    to.push(Push(touched, pulled.updates, gradients, pulled.weights))
    return {name: np.asarray(values) for name, values in {**pulled.weights, **pulled.updates}.items()}


def dumped(of: Shard) -> dict[str, tuple[NDArray[np.uint64], dict[str, NDArray[Any]]]]:
    """Return all rows, by table, in order of key."""
    found = {}
    for programs in PROGRAMS:
        name = programs.spec.name
        parts = list(of.holding(name).dump(name, of.now, range(NUM_SLICES)))
        columns = {column: np.concatenate([own[column] for _, own in parts]) for column in parts[0][1]}
        found[name] = np.concatenate([keys for keys, _ in parts]), columns
    return found


def assert_near(found: Any, expected: Any) -> None:
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for one, other in leaves:
        if np.issubdtype(other.dtype, np.floating) and NEAR:
            np.testing.assert_allclose(one, other, NEAR, NEAR)
        else:
            np.testing.assert_array_equal(one, other)


def assert_same(shards: Sequence[Shard], keys_of_batches: list[NDArray[np.uint64]], begin: int = 0) -> None:
    for number, keys in enumerate(keys_of_batches):
        assert_near(*(pushed(one, keys, begin + number) for one in shards))
    assert_near(*map(dumped, shards))


@costly
def test_a_shard_on_a_device_is_one_on_the_native_store() -> None:
    shards = shard(512), shard()
    assert_same(shards, batches(12, 1500))
    assert len(shards[0]) == len(shards[1]) > 512
    assert not len(shards[0].first.store.beside)  # type: ignore[attr-defined]


def test_rows_start_as_on_the_cpu_bit_for_bit() -> None:
    keys = random_keys(2000, 5)
    device_rows, native = (np.asarray(one.pull(keys, 2048).weights["started"]) for one in (shard(512), shard()))
    assert np.array_equal(device_rows, native)
    assert native[:2000].any(axis=1).all()
    assert not native[2000:].any()


@costly
def test_rows_that_find_no_room_on_the_device_are_learned_all_the_same() -> None:
    shards = shard(512, 200_000), shard()
    assert_same(shards, batches(30, 4000))
    store: Any = shards[0].first.store
    assert store.moved > 500
    assert len(store.beside) > 500


@costly
def test_a_batch_of_more_rows_than_the_device_may_hold_is_refused() -> None:
    small = shard(64, 20_000)
    with pytest.raises(TrainingError, match="A batch has 5,000 features, more than the memory granted on the device"):
        small.pull(random_keys(5000, 1), 5120)


def test_nothing_of_a_refused_push_is_stored() -> None:
    one, keys = shard(512), random_keys(50, 2)
    pushed(one, keys, 1)
    before = dumped(one)
    more = random_keys(80, 2)
    size = SIZE
    gradients = {p.spec.name: np.full((size, p.spec.dim), 9.0, np.float32) for p in PROGRAMS}
    counts = np.ones(80, np.uint32)
    pulled = one.pull(more, size)
    with pytest.raises(TrainingError, match="beyond the limits of safety"):
        one.push(Push(Touched(more, counts.astype(np.uint16), counts, counts, 9), pulled.updates, gradients, pulled.weights))
    assert_near(dumped(one), before)


@costly
@pytest.mark.parametrize("most_bytes", [None, 200_000])
def test_a_snapshot_of_a_shard_on_a_device_restores_one_on_the_native_store(most_bytes: int | None) -> None:
    one, reference = shard(512, most_bytes), shard()
    parts = batches(12, 3000, 8)
    for number, keys in enumerate(parts[:8]):
        pushed(one, keys, number)
        pushed(reference, keys, number)
    expected = dumped(reference)
    with one.snapshot(full=True) as snapshot:
        for number, keys in enumerate(parts[8:]):
            pushed(one, keys, 8 + number)
        restored = shard()
        for name in snapshot.state.tables:
            for records in snapshot.records(name):
                restored.tables[name].store.put(records)
    restored.now = reference.now
    assert_near(dumped(restored), expected)
