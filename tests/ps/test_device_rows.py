"""Rows on a device, which is the CPU here: the suite and the models of rows, with all memory granted and with little."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import settings

from tests.cases import costly
from tests.ps.rows_suite import RowsSuite
from tests.ps.test_native_snapshot import SnapshotMachine
from tests.ps.test_native_store import COLUMNS, COUNT, StoreMachine, V, random_keys
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.rows.base import ColumnTypes
from xpsql.platform.ps.rows.device import DeviceRows
from xpsql.platform.training.compiled import prepare_jax

prepare_jax()  # without conftest.py, too: what names no device is computed on the CPU

FEW = settings(max_examples=5, stateful_step_count=15, deadline=None)
LITTLE = 40_000


def device() -> jax.Device:
    """Return the GPU where there is one."""
    return next((one for one in jax.local_devices() if one.platform == "gpu"), jax.local_devices(backend="cpu")[0])


def roomy(columns: ColumnTypes) -> DeviceRows:
    return DeviceRows(columns, device(), rows=512)


def tight(columns: ColumnTypes) -> DeviceRows:
    return DeviceRows(columns, device(), LITTLE, 512)


class TestDeviceRows(RowsSuite):
    new_rows = staticmethod(roomy)


class DeviceMachine(StoreMachine):
    new_rows = staticmethod(roomy)


class DeviceSnapshotMachine(SnapshotMachine):
    new_rows = staticmethod(roomy)


class TightMachine(StoreMachine):
    """Most rows are in this machine's memory."""

    new_rows = staticmethod(tight)


class TightSnapshotMachine(SnapshotMachine):
    new_rows = staticmethod(tight)


TestDeviceAgreesWithDict = costly(DeviceMachine.TestCase)
TestSnapshotIsTheDeviceAtOneMoment = DeviceSnapshotMachine.TestCase
TestLittleMemoryAgreesWithDict = TightMachine.TestCase
TestSnapshotIsOfBothMemories = costly(TightSnapshotMachine.TestCase)
for case in (
    TestDeviceAgreesWithDict,
    TestSnapshotIsTheDeviceAtOneMoment,
    TestLittleMemoryAgreesWithDict,
    TestSnapshotIsOfBothMemories,
):
    case.settings = FEW


def filled(made: DeviceRows | Store, keys: np.ndarray) -> None:
    rows, _ = made.insert(keys)
    made.scatter(
        rows, [V, COUNT], [np.arange(3 * len(keys), dtype=np.float32).reshape(-1, 3), (keys & np.uint64(255)).astype(np.uint32)]
    )


def read(made: DeviceRows | Store, keys: np.ndarray) -> np.ndarray:
    found = np.empty((len(keys), 3), np.float32)
    made.gather(made.lookup(keys), [V], [found])
    return found


@costly
def test_rows_on_card_agree_with_the_native_store_as_they_grow() -> None:
    made, store = roomy(COLUMNS), Store(COLUMNS)
    for part in np.split(random_keys(60_000), 6):
        for one in (made, store):
            filled(one, part)
            one.evict(part[::7].copy())
    keys, _ = store.keys()
    assert np.array_equal(made.keys()[0], keys)
    assert np.array_equal(read(made, keys), read(store, keys))
    assert len(made) == len(store)
    assert len(made.beside) < 20  # of those that came at once, a few find both buckets full
    assert made.bring(keys)
    assert not len(made.beside)


@costly
def test_a_batch_is_brought_to_the_device_whatever_has_to_leave_it() -> None:
    made, keys = tight(COLUMNS), random_keys(5_000)
    filled(made, keys)
    assert len(made.beside) > 4_000
    before = read(made, keys)
    for begin in (0, 3_000, 1_000):
        part = keys[begin : begin + 300]
        assert made.bring(part)
        assert (made.lookup(part) < made.tally.end).all()
    assert np.array_equal(read(made, keys), before)
    assert len(made) == 5_000
    assert not made.bring(keys)
