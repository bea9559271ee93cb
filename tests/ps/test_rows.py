"""The implementations of Rows: one suite and two models for each, and a shard that cannot tell them apart."""

from __future__ import annotations

import numpy as np
from hypothesis import settings

from tests.cases import costly
from tests.ps.rows_suite import RowsSuite
from tests.ps.test_native_snapshot import SnapshotMachine
from tests.ps.test_native_store import StoreMachine
from tests.ps.test_remote_client import DENSE, PROGRAMS, pushed, random_keys, rows
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.rows.reference import DictRows
from xpsql.platform.ps.shard import Shard

FEW = settings(max_examples=15, stateful_step_count=20, deadline=None)


class TestNativeRows(RowsSuite):
    new_rows = Store


class TestDictRows(RowsSuite):
    new_rows = DictRows


class DictMachine(StoreMachine):
    new_rows = DictRows


class DictSnapshots(SnapshotMachine):
    """Snapshots of a dict, put into a native store."""

    new_rows = DictRows


class SnapshotsOfDict(SnapshotMachine):
    """Snapshots of a native store, put into a dict."""

    new_restored = DictRows


TestDictAgreesWithDict = DictMachine.TestCase
TestSnapshotIsTheDictAtOneMoment = DictSnapshots.TestCase
TestSnapshotOfTheStoreFitsADict = SnapshotsOfDict.TestCase
TestDictAgreesWithDict.settings = TestSnapshotIsTheDictAtOneMoment.settings = TestSnapshotOfTheStoreFitsADict.settings = FEW


@costly
def test_a_shard_on_a_dict_is_one_on_the_native_store_bit_for_bit() -> None:
    shards = [Shard(tables_of(PROGRAMS, new_rows), DENSE.part(0, 1), str) for new_rows in (Store, DictRows)]
    pool = random_keys(200, 1)
    for step, count in enumerate((1, 40, 150, 2, 90)):
        keys = np.random.default_rng(step).choice(pool, count, replace=False)
        for shard in shards:
            shard.push(pushed(LocalClient([shard]), keys, step, batch=step))
    native, plain = (rows([shard]) for shard in shards)
    assert native == plain
    assert len(plain) == 2 * len(shards[1])
    with shards[1].snapshot(full=True) as snapshot:
        for name in snapshot.state.tables:
            restored = Store([column[:3] for column in shards[1].tables[name].store.layout])
            for records in snapshot.records(name):
                restored.put(records)
            assert np.array_equal(restored.keys()[0], shards[0].tables[name].store.keys()[0])
