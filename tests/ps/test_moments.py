"""Statistics of parts merge into the statistics of the whole."""

from __future__ import annotations

import numpy as np

from xpsql.platform.ps.moments import merged, moments_of, no_moments


def test_batches_give_the_statistics_of_the_whole() -> None:
    random = np.random.default_rng(0)
    values = (random.normal(5, 3, (2, 300)) * [[1], [100]]).astype(np.float32)
    values[0, random.random(300) < 0.2] = np.nan
    moments = no_moments(2)
    for at in range(0, 300, 13):
        moments = merged(moments, moments_of(values[:, at : at + 13]))
    exact = values.astype(np.float64)
    np.testing.assert_array_equal(moments.count, (~np.isnan(values)).sum(axis=1))
    np.testing.assert_allclose(moments.mean, np.nanmean(exact, axis=1))
    np.testing.assert_allclose(moments.squares / moments.count, np.nanvar(exact, axis=1))


def test_a_batch_without_a_value_changes_nothing() -> None:
    moments = moments_of(np.array([[1.0, 3.0]], np.float32))
    for after, before in zip(merged(moments, moments_of(np.array([[np.nan]], np.float32))), moments, strict=True):
        np.testing.assert_array_equal(after, before)
