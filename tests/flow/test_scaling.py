"""Continuous slots are standardised by all examples so far."""

from __future__ import annotations

import numpy as np

from xpsql.platform.flow.scaling import LIMIT, Scaler


def test_batches_give_the_statistics_of_the_whole() -> None:
    random = np.random.default_rng(0)
    values = (random.normal(5, 3, (2, 300)) * [[1], [100]]).astype(np.float32)
    values[0, random.random(300) < 0.2] = np.nan
    scaler = Scaler(2)
    for at in range(0, 300, 13):
        scaler.learn(values[:, at : at + 13])
    scaled = scaler.scale(values, 300)
    expected = (values - np.nanmean(values, 1, keepdims=True)) / np.nanstd(values, 1, keepdims=True)
    np.testing.assert_allclose(scaled, np.nan_to_num(expected).T, rtol=1e-4, atol=1e-4)


def test_constants_absent_values_and_padding_read_as_zero() -> None:
    scaler = Scaler(1)
    scaler.learn(np.array([[7.0, 7.0, np.nan]], np.float32))
    assert scaler.scale(np.array([[7.0, np.nan]], np.float32), 4).tolist() == [[0.0], [0.0], [0.0], [0.0]]


def test_an_outlier_is_clipped() -> None:
    scaler = Scaler(1)
    scaler.learn(np.array([[-1.0, 1.0]], np.float32))
    assert scaler.scale(np.array([[1e9]], np.float32), 1).tolist() == [[LIMIT]]


def test_vectors_pass_unscaled_after_the_continuous_slots() -> None:
    scaler = Scaler(0)
    scaler.learn(np.array([[3.0, 4.0]], np.float32))
    assert scaler.scale(np.array([[3.0, np.nan]], np.float32), 2).tolist() == [[3.0], [0.0]]


def test_a_saved_scaler_goes_on_where_it_was() -> None:
    random = np.random.default_rng(1)
    one, two = random.normal(size=(2, 1, 50)).astype(np.float32)
    through, saved = Scaler(1), Scaler(1)
    through.learn(one)
    saved.learn(one)
    restored = Scaler.from_dict(saved.as_dict())
    through.learn(two)
    restored.learn(two)
    assert restored.as_dict() == through.as_dict()
