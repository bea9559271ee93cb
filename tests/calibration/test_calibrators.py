"""Calibrators: what scikit-learn fits of the same bins, and what shrinks where rows are few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import lengthy
from xpsql.algorithms.calibration import (
    BINS,
    HIGHEST,
    IDENTITY,
    ISOTONIC,
    LEAST_SLOPE,
    LIMIT,
    LOWEST,
    PLATT,
    Bins,
    Calibrator,
    RisingCurve,
    ValueSums,
    biases_of,
    curve_of,
    log_odds,
    platt,
    pooled,
    sigmoid,
)
from xpsql.platform.ps._native import calibrate
from xpsql.platform.training.metrics.calibrate import UNIT, Calibrating, Calibration, Fitted, Octave, OctaveTally, SeenRows
from xpsql.platform.training.metrics.ranking import ece_of

sklearn = pytest.importorskip("sklearn")


def bins_of(rows: int, slope: float, shift: float, seed: int = 1) -> Bins:
    """Return bins of rows whose true log odds are another straight line of those predicted."""
    random = np.random.default_rng(seed)
    scores = random.normal(-1, 1.5, rows)
    labels = random.random(rows) < sigmoid(slope * scores + shift)
    place = np.clip((scores / 12 + 1) * (BINS / 2), 0, BINS - 1).astype(int)
    sums = (np.bincount(place, weights, BINS) for weights in (None, labels, sigmoid(scores)))
    return Bins(*(np.asarray(one, np.float64) for one in sums))


def test_blocks_are_those_of_isotonic_regression() -> None:
    from sklearn.isotonic import IsotonicRegression

    bins = bins_of(20_000, 0.6, 0.4).filled
    expected = IsotonicRegression().fit(bins.scores, bins.labels / bins.rows, bins.rows).predict(bins.scores)
    starts = pooled(bins.rows, bins.labels)
    rates = np.add.reduceat(bins.labels, starts) / np.add.reduceat(bins.rows, starts)
    found = np.repeat(rates, np.diff(np.r_[starts, len(bins.rows)]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_a_straight_line_is_that_of_logistic_regression() -> None:
    from sklearn.linear_model import LogisticRegression

    bins = bins_of(20_000, 0.6, 0.4).filled
    x = np.repeat(bins.scores, 2)[:, None]
    y = np.tile([1, 0], len(bins.rows))
    weights = np.stack([bins.labels, bins.rows - bins.labels], axis=1).reshape(-1)
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x, y, weights)
    curve = platt(bins)
    assert curve.slope == pytest.approx(model.coef_[0, 0], rel=1e-4)
    assert curve.to[0] == pytest.approx(model.intercept_[0], abs=1e-4)
    assert (curve.slope, curve.to[0]) == pytest.approx((0.6, 0.4), abs=0.05)


def test_a_curve_rises_everywhere_and_is_near_the_truth() -> None:
    curve, scores = curve_of(bins_of(200_000, 0.6, 0.4), ISOTONIC), np.linspace(-15, 15, 4001)
    assert len(curve.at) <= 32
    assert (np.diff(curve.of(scores)) >= 0.9 * LEAST_SLOPE * np.diff(scores)).all()
    middle = np.abs(scores + 1) < 3
    np.testing.assert_allclose(curve.of(scores[middle]), 0.6 * scores[middle] + 0.4, atol=0.25)
    assert curve.of(np.array([40.0])) == pytest.approx(curve.to[-1] + 40 - curve.at[-1])


def test_few_labels_give_a_straight_line_and_one_kind_of_labels_nothing() -> None:
    assert curve_of(bins_of(2000, 0.6, 0.4), ISOTONIC).method == PLATT
    assert curve_of(bins_of(200_000, 0.6, 0.4), PLATT).method == PLATT
    none = bins_of(2000, 0.6, 0.4)
    assert curve_of(none._replace(labels=np.zeros(BINS)), ISOTONIC) is IDENTITY
    assert curve_of(Bins(*np.zeros((3, BINS))), ISOTONIC) is IDENTITY


def test_one_prediction_for_all_rows_learns_their_mean() -> None:
    rows, clicks = np.zeros(BINS), np.zeros(BINS)
    rows[500], clicks[500] = 1000, 300
    curve = curve_of(Bins(rows, clicks, rows * 0.1), PLATT)
    assert sigmoid(curve.of(log_odds(np.array([0.1])))) == pytest.approx([0.3], abs=1e-6)


def test_biases_follow_values_with_many_rows_and_leave_those_with_few() -> None:
    random = np.random.default_rng(3)
    rows = np.r_[np.full(50, 5000.0), np.full(500, 5.0)]
    truth = np.exp(random.normal(0, 0.5, 550))
    expected = rows * 0.05
    labels = random.binomial(rows.astype(int), np.minimum(0.05 * truth, 1)).astype(float)
    sums = ValueSums(np.arange(550, dtype=np.uint64), rows, labels, expected)
    biases = biases_of(sums)
    found = biases.of(np.arange(550, dtype=np.uint64))
    assert np.corrcoef(found[:50], np.log(truth[:50]))[0, 1] > 0.95
    assert np.abs(found[50:]).max() < 0.2
    assert biases.of(np.array([10**9], np.uint64)) == [0]


def test_values_that_differ_by_chance_alone_have_no_biases_to_speak_of() -> None:
    random = np.random.default_rng(4)
    rows = np.full(300, 400.0)
    labels = random.binomial(400, 0.1, 300).astype(float)
    sums = ValueSums(np.arange(300, dtype=np.uint64), rows, labels, rows * 0.1)
    assert np.abs(biases_of(sums).of(sums.keys)).max() < 0.15


def test_a_correction_for_rows_left_out_is_that_of_odds() -> None:
    p = np.array([0.5, 0.9, 0.01], np.float32)
    np.testing.assert_allclose(Calibrator(shift=float(np.log(0.1))).of(p, None), p / (p + (1 - p) / 0.1), rtol=1e-6)


def test_the_calibration_error_is_that_of_its_definition() -> None:
    random = np.random.default_rng(5)
    p = np.sort(random.random(1500))
    y = (random.random(1500) < p**2).astype(float)
    expected = np.mean([abs(y[i : i + 100].mean() - p[i : i + 100].mean()) for i in range(0, 1500, 100)])
    assert ece_of(np.ones(1500), y, p) == pytest.approx(expected, abs=1e-12)


def tally(octave: int, seed: int) -> OctaveTally:
    random = np.random.default_rng(seed)
    keys = np.unique(random.integers(0, 30, 12).astype(np.uint64))
    return OctaveTally(octave, random.integers(0, 9, (1, 3, BINS)), keys, random.integers(0, 9, (1, 3, len(keys))))


@lengthy
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000)), max_size=8), st.randoms())
def test_tallies_add_up_in_any_order(parts: list[tuple[int, int]], random: object) -> None:
    asked, shuffled = Calibration(PLATT, 0, 1, False, None), list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    sums = []
    for order in (parts, shuffled):
        half, whole = Calibrating(asked, (0,)), Calibrating(asked, (0,))
        for octave, seed in order[: len(order) // 2]:
            half.add(tally(octave, seed))
        for octave, seed in order[len(order) // 2 :]:
            whole.add(tally(octave, seed))
        whole.take(half.tallies())
        sums.append(sorted(whole.tallies(), key=lambda one: one.octave))
    for one, other in zip(*sums, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_example_whose_label_comes_late_counts_once() -> None:
    labels, predictions = np.array([0, 0, 1], np.float32), np.array([0.2, 0.4, 0.3], np.float32)
    codes, biases = np.array([0, 1, 0], np.int32), np.zeros(2, np.float32)
    bins, values = np.zeros((3, BINS), np.int64), np.zeros((3, 2), np.int64)
    lines = Fitted().lines
    calibrate(labels, predictions, *lines, codes, biases, LIMIT, LOWEST, HIGHEST, True, bins, values)
    assert bins[:2].sum(axis=1).tolist() == [2, 1]  # the third is the first once more, clicked
    assert bins[2].sum() / UNIT == pytest.approx(0.6)
    assert values[:2].tolist() == [[1, 1], [1, 0]]


def test_a_curve_and_biases_and_tallies_are_those_of_numpy() -> None:
    random = np.random.default_rng(0)
    n, k = 5000, 7
    scores = random.normal(-2, 3, n)
    predictions, labels = sigmoid(scores).astype(np.float32), (random.random(n) < sigmoid(scores)).astype(np.float32)
    codes, biases = random.integers(0, k, n).astype(np.int32), random.normal(size=k).astype(np.float32)
    curve = RisingCurve(np.array([-3.0, 0.0, 2.0]), np.array([-2.5, 0.1, 1.0]), 0.5, "isotonic")
    bins, values = np.zeros((3, BINS), np.int64), np.zeros((3, k), np.int64)
    shown = calibrate(labels, predictions, *Fitted(curve).lines, codes, biases, LIMIT, LOWEST, HIGHEST, False, bins, values)
    odds = np.log(predictions.astype(float)) - np.log1p(-predictions.astype(float))
    np.testing.assert_allclose(shown, sigmoid(curve.of(odds) + biases[codes]), atol=2e-3)  # a knot lies within its bin
    place = np.clip(odds * (BINS / 2 / LIMIT) + BINS / 2, 0, BINS - 1).astype(int)
    assert np.abs(np.bincount(place, minlength=BINS) - bins[0]).sum() <= 6  # of scores at an edge
    assert bins[:2].sum(axis=1).tolist() == [n, int(labels.sum())]
    assert bins[2].sum() == np.rint(predictions.astype(float) * UNIT).sum()
    assert values[0].tolist() == np.bincount(codes, minlength=k).tolist()
    assert values[1].tolist() == np.bincount(codes, labels, k).tolist()
    np.testing.assert_allclose(values[2] / UNIT, np.bincount(codes, sigmoid(curve.of(odds)), k), rtol=1e-4)
    for wrong in (codes + k, codes - 1):
        with pytest.raises(ValueError, match="codes must lie within biases"):
            calibrate(labels, predictions, *Fitted(curve).lines, wrong, biases, LIMIT, LOWEST, HIGHEST, False, None, None)


def test_values_of_many_batches_add_up_by_key() -> None:
    random, octave, wanted = np.random.default_rng(1), Octave(2, 1), dict[int, int]()
    for _ in range(400):
        keys = random.choice(2000, 300, replace=False).astype(np.uint64)
        counts = random.integers(0, 1 << 40, (1, 3, 300))
        octave.add(SeenRows(2, np.ones((1, 3, BINS), np.int64), keys, counts))
        for key, count in zip(keys.tolist(), counts[0, 2].tolist(), strict=True):
            wanted[key] = wanted.get(key, 0) + count
    tally = octave.tally()
    assert dict(zip(tally.keys.tolist(), tally.values[0, 2].tolist(), strict=True)) == wanted
    assert (tally.bins == 400).all()
