"""Distinct keys and codes, held against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from xpsql.platform.ps._native import Deduplicator, unique

NUM_CODES = 12


def first_occurrences(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct values in order of first occurrence, and the position of each value among them."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return values[np.sort(first)], np.argsort(order)[inverse]


@given(arrays(np.uint64, st.integers(0, 200), elements=st.integers(0, 40) | st.integers(0, 2**64 - 1)))
def test_unique_keeps_the_order_of_first_occurrence(keys: np.ndarray) -> None:
    found, inverse = unique(keys)
    expected, positions = first_occurrences(keys)
    assert found.dtype == np.uint64
    assert inverse.dtype == np.int32
    assert found.tolist() == expected.tolist()
    assert inverse.tolist() == positions.tolist()


def test_unique_finds_each_of_many_keys() -> None:
    keys = np.random.default_rng(3).integers(0, 2**64, 50_000, dtype=np.uint64)
    found, inverse = unique(np.concatenate([keys, keys[::-1]]))
    assert np.array_equal(found, keys)
    assert np.array_equal(inverse, np.concatenate([np.arange(50_000), np.arange(50_000)[::-1]]))


batch = st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 5)).flatmap(
    lambda sizes: st.tuples(
        arrays(np.int32, (sizes[0], sizes[1]), elements=st.integers(-1, NUM_CODES - 1)),
        arrays(np.int32, sizes[2] if sizes[1] else 0, elements=st.integers(-1, NUM_CODES - 1)),
        arrays(np.int32, sizes[2] if sizes[1] else 0, elements=st.integers(0, max(0, sizes[1] - 1))),
        arrays(np.uint8, sizes[1], elements=st.integers(0, 1)),
    )
)


def check(deduplicator: Deduplicator, scalar: np.ndarray, bag: np.ndarray, example: np.ndarray, positive: np.ndarray) -> None:
    scalar_index, bag_index = np.empty_like(scalar), np.empty_like(bag)
    codes, counts, clicks = deduplicator.unique(scalar, bag, example, positive, scalar_index, bag_index)
    everything = np.concatenate([scalar.ravel(), bag])
    clicked = np.concatenate([np.tile(positive, len(scalar)), positive[example]])
    present = everything >= 0
    expected, positions = first_occurrences(everything[present])
    indices = np.full(len(everything), len(expected))
    indices[present] = positions
    assert codes.tolist() == expected.tolist()
    assert np.concatenate([scalar_index.ravel(), bag_index]).tolist() == indices.tolist()
    assert counts.tolist() == [(everything == code).sum() for code in expected]
    assert clicks.tolist() == [clicked[everything == code].sum() for code in expected]


@given(st.lists(batch, max_size=4))
def test_one_deduplicator_serves_batch_after_batch(
    batches: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
) -> None:
    deduplicator = Deduplicator(NUM_CODES)
    for arguments in batches:
        check(deduplicator, *arguments)


def test_a_batch_may_be_a_range_of_the_examples_of_a_chunk() -> None:
    chunk = np.random.default_rng(0).integers(-1, NUM_CODES, (5, 40)).astype(np.int32)
    out = np.full((5, 16), -7, np.int32)
    nothing = np.empty(0, np.int32)
    Deduplicator(NUM_CODES).unique(chunk[:, 8:16], nothing, nothing, np.zeros(8, np.uint8), out[:, :8], np.empty(0, np.int32))
    expected = np.empty((5, 8), np.int32)
    scalar = np.ascontiguousarray(chunk[:, 8:16])
    Deduplicator(NUM_CODES).unique(scalar, nothing, nothing, np.zeros(8, np.uint8), expected, np.empty(0, np.int32))
    assert np.array_equal(out[:, :8], expected)
    assert (out[:, 8:] == -7).all()


@pytest.mark.parametrize(
    ("scalar", "bag", "example", "error", "message"),
    [
        ([[NUM_CODES]], [], [], ValueError, r"codes of scalar must lie in \[-1, 12\), got values from 12 to 12"),
        ([[0]], [-2], [0], ValueError, "codes of bag must lie in"),
        ([[0]], [1], [1], ValueError, r"bag_example must lie in \[0, 1\)"),
        ([[0, 1]], [], [], ValueError, r"scalar must be .* int32\[n, 1\], got int32\[1, 2\]"),
        ([[0]], [1], [], ValueError, r"bag_example must be .* int32\[1\], got int32\[0\]"),
    ],
)
def test_codes_and_shapes_that_do_not_fit_are_refused(
    scalar: list[list[int]], bag: list[int], example: list[int], error: type[Exception], message: str
) -> None:
    codes, values = np.array(scalar, np.int32), np.array(bag, np.int32)
    with pytest.raises(error, match=message):
        Deduplicator(NUM_CODES).unique(
            codes, values, np.array(example, np.int32), np.zeros(1, np.uint8), np.empty_like(codes), np.empty_like(values)
        )
