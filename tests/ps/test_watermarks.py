"""No batch is lost and none is applied twice, whatever is pushed again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from xpsql.platform.errors import TrainingError
from xpsql.platform.operators.base import DenseSpec, TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.keys import NUM_SLICES
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import BatchId, Push, Touched
from xpsql.platform.ps.moments import no_moments
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.watermarks import EpochError, GapError, Run, Turn, Watermarks, highest, lowest

SPEC = TableSpec("weights", 1)
PROGRAMS = Programs(SPEC, chain(ftrl(FtrlOptions(), SPEC)), seed=7)
KEYS = np.random.default_rng(1).integers(0, 2**64, 50, np.uint64)
SIZE = 64


def sgd() -> DenseProgram:
    import optax

    return DenseProgram((DenseSpec("kernel", (3,)), DenseSpec("bias", (2,))), optax.sgd(0.5), 7)


DENSE = sgd()


def shard(watermarks: Watermarks | None) -> Shard:
    made = Shard(tables_of([PROGRAMS], Store), DENSE.part(0, 1), str)
    made.moments = no_moments(1)
    made.watermarks = watermarks
    return made


def fresh(epoch: int = 0) -> Watermarks:
    return Watermarks.fresh(range(NUM_SLICES), ("kernel", "bias"), epoch)


def push_of(batch: int, split: int = 0, epoch: int = 0) -> Push:
    random = np.random.default_rng((split, batch))
    ones = np.ones(len(KEYS), np.uint32)
    which = BatchId(epoch, 0, split, batch)
    touched = Touched(KEYS, np.zeros(len(KEYS), np.uint16), ones, ones, 100 + batch, which, 10, 4)
    gradients = random.normal(size=(SIZE, 1)).astype(np.float32)
    dense = {"kernel": np.float32(random.normal(size=3)), "bias": np.float32(random.normal(size=2))}
    values = random.normal(size=3)
    moments = no_moments(1)._replace(
        count=np.full(1, 3.0), mean=np.full(1, values.mean()), squares=np.full(1, values.var() * 3)
    )
    return Push(touched, {"weights": ones * 0}, {"weights": gradients}, dense=dense, moments=moments)


def state(of: Shard) -> dict[str, NDArray[np.generic]]:
    """Return all that a shard holds."""
    found: dict[str, NDArray[np.generic]] = {"examples": np.array([of.examples, of.positives])}
    for keys, columns in of.tables["weights"].dump("weights", of.now, range(NUM_SLICES)):
        found |= {"keys": keys, **columns}
    found |= {name: np.asarray(values) for name, values in of.dense.pull().items()}
    return found | dict(zip(("moments.count", "moments.mean", "moments.squares"), of.moments, strict=True))


def assert_same(found: Shard, expected: Shard) -> None:
    one, other = state(found), state(expected)
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)


def test_a_push_that_comes_again_is_acknowledged_and_changes_nothing() -> None:
    once, often = shard(fresh()), shard(fresh())
    for batch in range(4):
        once.push(push_of(batch))
        for repeated in range(batch + 1):
            often.push(push_of(repeated))
    assert_same(often, once)
    assert [entry.applied for entry in often.progress()] == [{Turn(0, 0): 4}]


def test_a_gap_is_refused_and_names_turn_expected_and_found() -> None:
    one = shard(fresh())
    one.push(push_of(0, split=3))
    with pytest.raises(GapError, match="Expected batch 1 of pass 0, split 3, got batch 2"):
        one.push(push_of(2, split=3))
    one.push(push_of(1, split=3))
    assert one.progress()[0].applied == {Turn(0, 3): 2}
    assert isinstance(GapError(""), TrainingError)


def test_a_push_of_an_earlier_epoch_is_refused() -> None:
    one = shard(fresh(epoch=2))
    with pytest.raises(EpochError, match="Expected pushes of epoch 2, got one of epoch 1"):
        one.push(push_of(0, epoch=1))
    one.push(push_of(0, epoch=2))
    one.push(push_of(1, epoch=3))
    assert one.progress()[0].applied == {Turn(0, 0): 2}


def test_a_push_that_fails_is_not_counted_as_applied() -> None:
    one = shard(fresh())
    with pytest.raises(KeyError):
        one.push(push_of(0)._replace(gradients={}))
    assert one.progress()[0].applied == {}


def test_entries_survive_a_round_trip() -> None:
    runs = [Run(range(0, 300), ("kernel",), True, {Turn(0, 0): 3, Turn(1, 2): 1}), Run(range(300, 1024), ("bias",), False, {})]
    entries = Watermarks(runs, 4).entries()
    again = Watermarks.from_entries(entries, 4)
    assert [e.applied for e in again.entries()] == [{Turn(0, 0): 3, Turn(1, 2): 1}, {}]
    for one, other in zip(again.entries(), entries, strict=True):
        assert one[:4] == other[:4]
        np.testing.assert_array_equal(one.turns, other.turns)


def test_the_lowest_of_several_is_what_all_have_and_the_highest_what_one_has() -> None:
    entries = [
        *Watermarks(
            [Run(range(10), (), True, {Turn(0, 0): 3, Turn(0, 1): 5}), Run(range(10), (), False, {Turn(0, 0): 9})], 0
        ).entries(),
        *Watermarks.fresh(range(10), (), 0).entries(),
    ]
    assert lowest(entries[:2]) == {Turn(0, 0): 3}
    assert lowest(entries) == {}
    assert lowest(entries[:1]) == {Turn(0, 0): 3, Turn(0, 1): 5}
    assert lowest([]) == {}
    assert highest(entries) == {Turn(0, 0): 9, Turn(0, 1): 5}
    assert highest([]) == {}


@settings(max_examples=30, deadline=None)
@given(
    have=st.lists(st.integers(0, 6), min_size=3, max_size=3),
    bounds=st.lists(st.integers(0, NUM_SLICES), min_size=2, max_size=2),
)
def test_runs_that_stand_at_different_batches_end_as_if_each_batch_had_come_once(have: list[int], bounds: list[int]) -> None:
    """Each run begins with what it would hold after its batches; then all batches are pushed again."""
    first, second = sorted(bounds)
    slices = [range(first), range(first, second), range(second, NUM_SLICES)]
    named: list[tuple[str, ...]] = [("kernel",), (), ("bias",)]
    expected, found = shard(fresh()), shard(None)
    for batch in range(6):
        expected.push(push_of(batch))
    runs = [Run(part, dense, i == 1, {}) for i, (part, dense) in enumerate(zip(slices, named, strict=True))]
    begun = Watermarks(runs, 0)
    for run, upto in zip(runs, have, strict=True):
        for batch in range(upto):
            part = begun.part(push_of(batch), [run])
            found.push(part)
        run.applied[Turn(0, 0)] = upto
    found.watermarks = begun
    for batch in range(min(have), 6):
        found.push(push_of(batch))
    assert_same(found, expected)
    assert len(found.progress()) == 1 or min(have) == 6  # a push makes runs one
    assert found.progress()[0].applied == {Turn(0, 0): 6}
