"""A checkpoint in the middle of a training changes nothing, whatever operators a chain has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import optax
import pytest

from tests.cases import costly_after_first
from tests.operators.examples import PARTS, make
from xpsql.platform.operators.base import Operator
from xpsql.platform.operators.chains import chain
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.keys import NUM_SLICES
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import BatchId, Push, Touched
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.watermarks import Watermarks
from xpsql.platform.training.checkpoints.files import restore, write
from xpsql.testing.operators import TABLE
from xpsql.warehouse.storage import Storage
from xpsql.warehouse.trainings.checkpoints import Checkpoint, Checkpoints

KEYS = np.random.default_rng(0).integers(0, 1 << 64, 200, np.uint64)
SIZE = 64
BATCHES = 8
DAY = 86_400


def shard_of(operator: Operator) -> Shard:
    whole = chain(operator) if operator.optimizer else chain(operator, make("ftrl"))
    shard = Shard(tables_of([Programs(TABLE, whole, 7)], Store), DenseProgram((), optax.sgd(0.1), 7).part(0, 1), str)
    shard.watermarks = Watermarks.fresh(range(NUM_SLICES), (), 0)
    return shard


def push(shard: Shard, batches: range) -> None:
    client = LocalClient([shard])
    for batch in batches:
        random = np.random.default_rng(batch)
        keys = random.choice(KEYS, SIZE, replace=False)
        counts = random.integers(1, 4, SIZE, np.uint32)
        time_seconds = DAY * (20_000 + 5 * batch)
        touched = Touched(keys, np.ones(SIZE, np.uint16), counts, counts // 2, time_seconds, BatchId(0, 0, 0, batch), SIZE, 20)
        gradients = random.normal(size=(SIZE, TABLE.dim)).astype(np.float32)
        pulled = client.pull(keys, SIZE)
        client.push(Push(touched, pulled.updates, {TABLE.name: gradients}, pulled.weights))


def held(shard: Shard) -> dict[int, bytes]:
    """Return what a shard holds of each key."""
    found = {}
    for keys, columns in shard.first.dump(TABLE.name, shard.now, range(NUM_SLICES)):
        for i, key in enumerate(keys.tolist()):
            found[key] = b"".join(columns[name][i].tobytes() for name in sorted(columns))
    return found


@costly_after_first
@pytest.mark.parametrize("name", PARTS)
def test_a_restored_shard_goes_on_as_one_that_was_not_interrupted(name: str, tmp_path: Path) -> None:
    operator = make(name)
    whole, broken, restored = (shard_of(operator) for _ in range(3))
    push(whole, range(BATCHES))
    push(broken, range(BATCHES // 2))
    place = Storage(str(tmp_path))
    with broken.snapshot(True) as snapshot:
        checkpoint = Checkpoint(0, 1, (), (write(place, "000000-000001", 0, 1, snapshot),))
    restore({0: restored}, 1, Checkpoints(place), checkpoint, epoch=0)
    push(restored, range(BATCHES // 2, BATCHES))
    assert held(restored) == held(whole)
    assert restored.reports == whole.reports
