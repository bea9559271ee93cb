"""Keys are grouped by shard in one pass; rows of arrays go to the parts and back."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from xpsql.platform.ps._native import partition, put_rows, take_rows
from xpsql.platform.ps.compiled.ladder import Ladder
from xpsql.platform.ps.keys import slices
from xpsql.platform.ps.messages import Push, Touched
from xpsql.platform.ps.placement import Placement, parts_of, shard_of, slices_of

KEYS = hnp.arrays(np.uint64, st.integers(0, 200))


@given(KEYS, st.integers(1, 1024))
def test_keys_are_grouped_by_shard_in_their_order(keys: NDArray[np.uint64], num_shards: int) -> None:
    grouped, positions, starts = partition(keys, num_shards)
    owner = shard_of(keys, num_shards)
    expected = np.argsort(owner, kind="stable")
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_array_equal(grouped, keys[expected])
    np.testing.assert_array_equal(starts, np.searchsorted(owner[expected], np.arange(num_shards + 1)))


@given(KEYS, st.integers(1, 7))
def test_a_placement_gives_each_shard_the_keys_of_its_slices(keys: NDArray[np.uint64], num_shards: int) -> None:
    placement = Placement(keys, num_shards, Ladder())
    for shard in range(num_shards):
        np.testing.assert_array_equal(keys[placement.positions[shard]], placement.keys[shard])
        assert set(slices(placement.keys[shard]).tolist()) <= set(slices_of(shard, num_shards))


@given(KEYS, st.integers(1, 7))
def test_a_push_is_divided_into_what_each_shard_has_of_it(keys: NDArray[np.uint64], num_shards: int) -> None:
    n = len(keys)
    counts = np.arange(n, dtype=np.uint32)
    rows = np.arange(3 * (n + 2), dtype=np.float32).reshape(n + 2, 3)
    touched = Touched(keys, counts.astype(np.uint16), counts + 1, counts + 2, 5, examples=6, positives=7)
    dense = {name: np.zeros(1, np.float32) for name in "abcdefg"}
    push = Push(touched, {"t": counts + 3}, {"t": rows}, {"t": -rows}, dense, worker=4)
    placement, owner = Placement(keys, num_shards, Ladder()), shard_of(keys, num_shards)
    for number, part in enumerate(parts_of(push, placement, [[name] for name in list(dense)[:num_shards]])):
        own = np.flatnonzero(owner == number)
        for got, whole in zip(part.touched, touched.only(own), strict=True):
            np.testing.assert_array_equal(got, whole)
        np.testing.assert_array_equal(part.updates["t"], own + 3)
        for got, whole in ((part.gradients["t"], rows), (part.weights["t"], -rows)):
            assert got.shape == (placement.sizes[number], 3)
            assert len(got) >= len(own)
            np.testing.assert_array_equal(got[: len(own)], whole[own])
        assert list(part.dense) == [list(dense)[number]]
        assert part.worker == 4


@pytest.mark.parametrize("num_shards", [0, 1025])
def test_more_shards_than_slices_are_refused(num_shards: int) -> None:
    with pytest.raises(ValueError, match=r"num_shards must lie in \[1, 1024\]"):
        partition(np.zeros(1, np.uint64), num_shards)


@given(st.sampled_from(["u2", "u4", "u8", "f4", "f8"]), st.sampled_from([(), (1,), (3,), (4,), (16,), (2, 4)]), st.data())
def test_rows_are_taken_and_put_back(dtype: str, tail: tuple[int, ...], data: st.DataObject) -> None:
    values: NDArray[Any] = np.arange(50 * int(np.prod(tail, dtype=int)), dtype=dtype).reshape(50, *tail)
    positions = np.array(data.draw(st.lists(st.integers(0, 49), unique=True, max_size=50)), np.int32)
    taken = np.full((len(positions) + 3, *tail), 9, dtype)
    take_rows(values, positions, taken)
    np.testing.assert_array_equal(taken[: len(positions)], values[positions])
    assert (taken[len(positions) :] == 9).all()
    back = np.zeros_like(values)
    put_rows(back, positions, taken)
    np.testing.assert_array_equal(back[positions], values[positions])
    assert not np.delete(back, positions, axis=0).any()


@pytest.mark.parametrize("bad", [-1, 5])
def test_a_position_that_is_not_there_is_refused(bad: int) -> None:
    five, positions = np.zeros((5, 2), np.float32), np.array([0, bad], np.int32)
    with pytest.raises(IndexError, match=rf"\[0, 5\), got {bad}"):
        take_rows(five, positions, np.zeros((2, 2), np.float32))
    with pytest.raises(IndexError, match=rf"\[0, 5\), got {bad}"):
        put_rows(five, positions, np.zeros((2, 2), np.float32))


def test_arrays_of_other_rows_or_too_few_are_refused() -> None:
    five, positions = np.zeros((5, 2), np.float32), np.array([0, 1], np.int32)
    with pytest.raises(ValueError, match="at least 2 rows of 8 bytes, got 2 of 4"):
        take_rows(five, positions, np.zeros((2, 1), np.float32))
    with pytest.raises(ValueError, match="at least 2 rows of 8 bytes, got 1 of 8"):
        put_rows(five, positions, np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match="C-contiguous"):
        take_rows(np.zeros((2, 5), np.float32).T, positions, five)
