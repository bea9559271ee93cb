"""Crosses by residuals: gains against a plain loop, no gain of noise, and what is planted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training.auto.logs import planted
from xpsql.platform.training.auto.look import scored_by_mean
from xpsql.platform.training.auto.screen import SHRINKS, CrossTable, ScreenedRows, alone, crosses
from xpsql.platform.training.metrics.alone import auc_of, told_alone


def sample(rows: int, seed: int, pairs: float) -> ScreenedRows:
    table = planted(rows, seed, pairs)
    names = tuple(name for name in table.column_names if name.startswith("s"))
    codes = [np.unique(table.column(name).to_numpy(), return_inverse=True)[1].astype(np.int32) for name in names]
    labels = table.column("label").to_numpy().astype(float)
    return ScreenedRows(names, codes, labels, np.full(rows, np.log(labels.mean() / (1 - labels.mean()))), numbers=False)


def test_the_gain_of_a_pair_is_that_of_a_loop_over_its_values() -> None:
    rows = sample(400, 1, 1.0)
    residuals, curvature = rows.gradients()
    found, _ = CrossTable.of(rows, [0, 1]).gains(residuals, curvature, rows.half)
    pair = [*zip(rows.codes[0].tolist(), rows.codes[1].tolist(), strict=True)]
    expected = 0.0
    for value in set(pair):
        first = [n for n in range(rows.half) if pair[n] == value]
        later = [n for n in range(rows.half, 400) if pair[n] == value]
        weight = sum(residuals[first]) / (sum(curvature[first]) + SHRINKS)
        expected += weight * sum(residuals[later]) - weight**2 * sum(curvature[later]) / 2
    assert found.sum() == pytest.approx(expected, abs=1e-9)


def test_noise_has_no_gain_in_the_mean() -> None:
    means = []
    for seed in range(60):
        rows = sample(600, seed, 0.0)
        means.append(np.mean([one.gain for one in alone(rows)]))
    assert np.mean(means) < 2 * np.std(means) / np.sqrt(len(means))


def test_a_column_is_not_blamed_for_a_label_that_becomes_rarer() -> None:
    random, rows = np.random.default_rng(0), 20_000
    values = random.integers(0, 4, rows)
    score = np.where(np.arange(rows) < rows // 2, 1.5, -1.5) + 0.2 * values
    labels = (random.random(rows) < 1 / (1 + np.exp(-score))).astype(float)
    fixed = np.full(rows, np.log(labels.mean() / (1 - labels.mean())))
    blamed = ScreenedRows(("s",), [values.astype(np.int32)], labels, fixed, numbers=False)
    fair = ScreenedRows(("s",), [values.astype(np.int32)], *scored_by_mean(labels, binary=True), numbers=False)
    assert alone(blamed)[0].gain < 0 < alone(fair)[0].low


@pytest.mark.parametrize("seed", range(3))
def test_the_planted_pair_is_found_and_no_other(seed: int) -> None:
    (found,) = crosses(sample(8000, seed, 1.5), 3, 20, 0.0)
    assert found.names == ("s0", "s1")
    assert 0 < found.low < found.gain < found.high


def test_no_cross_is_found_in_noise() -> None:
    found = [one for seed in range(10) for one in crosses(sample(4000, seed, 0.0), 2, 20, 0.0)]
    assert len(found) <= 1  # by 150 candidates, each round at a level of 0.05 together


def test_two_slots_that_tell_the_same_are_crossed_once() -> None:
    rows = sample(8000, 0, 1.5)
    rows.names, rows.codes = (*rows.names, "copy"), [*rows.codes, rows.codes[0]]
    (found,) = crosses(rows, 2, 20, 0.0)
    assert found.names in {("s0", "s1"), ("s1", "copy")}


def test_a_column_that_has_the_label_is_a_leak_and_one_that_is_missing_by_it_too() -> None:
    labels = (np.arange(2000) % 3 == 0).astype(float)
    missing = np.where(labels > 0, np.arange(2000) % 50, -1).astype(np.int32)
    for codes in (labels.astype(np.int32), missing):
        told = told_alone(codes, labels)
        assert told is not None
        assert told.leaks
    told = told_alone((np.arange(2000) % 7).astype(np.int32), labels)
    assert told is not None
    assert not told.leaks
    assert told_alone(labels[:100].astype(np.int32), labels[:100]) is None


def test_equal_scores_count_half_of_a_pair() -> None:
    assert auc_of(np.array([True, False, True, False]), np.array([0.5, 0.5, 0.9, 0.1])) == pytest.approx(7 / 8)
