"""Continuous slots are standardised by what has been seen of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xpsql.platform.input.scaling import LIMIT, as_entry, from_entry, scale
from xpsql.platform.ps.moments import moments_of, no_moments


def floats(*lines: list[float]) -> NDArray[np.float32]:
    return np.array(lines, np.float32)


def test_values_are_standardised_by_mean_and_deviation() -> None:
    values = np.random.default_rng(0).normal(5, 3, (2, 300)).astype(np.float32)
    values[0, 7] = np.nan
    expected = (values - np.nanmean(values, 1, keepdims=True)) / np.nanstd(values, 1, keepdims=True)
    np.testing.assert_allclose(scale(values, moments_of(values), 300), np.nan_to_num(expected).T, rtol=1e-4, atol=1e-4)


def test_constants_absent_values_and_padding_read_as_zero() -> None:
    moments = moments_of(floats([7.0, 7.0, np.nan]))
    assert scale(floats([7.0, np.nan]), moments, 4).tolist() == [[0.0], [0.0], [0.0], [0.0]]


def test_an_outlier_is_clipped() -> None:
    assert scale(floats([1e9]), moments_of(floats([-1.0, 1.0])), 1).tolist() == [[LIMIT]]


def test_vectors_pass_unscaled_after_the_continuous_slots() -> None:
    assert scale(floats([3.0, np.nan]), no_moments(0), 2).tolist() == [[3.0], [0.0]]


def test_a_manifest_keeps_statistics_exactly() -> None:
    moments = moments_of(np.random.default_rng(1).normal(size=(3, 50)).astype(np.float32))
    for kept, one in zip(from_entry(as_entry(moments)), moments, strict=True):
        np.testing.assert_array_equal(kept, one)
