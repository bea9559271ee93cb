"""Safety: what is refused, what is counted, and that no row ever holds NaN."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.examples import make
from xpsql.platform.operators.safety import SAFETY, SafetyOptions
from xpsql.testing.operators import SIZE, OperatorTrial, PushInput, context

NOT_FINITE = [np.nan, np.inf, -np.inf]


@pytest.fixture(scope="module", params=["ftrl", "adam"])
def unlimited(request: pytest.FixtureRequest) -> OperatorTrial:
    return OperatorTrial(SAFETY, SafetyOptions(), after=(make(request.param),))


def with_gradient(example: PushInput, row: int, value: float) -> PushInput:
    gradients = example.gradients.copy()
    gradients[row, 1] = value
    return example._replace(gradients=gradients)


@pytest.mark.parametrize("value", NOT_FINITE)
def test_a_row_whose_gradient_is_not_finite_stays_as_it_was_without_any_limit(unlimited: OperatorTrial, value: float) -> None:
    example = with_gradient(unlimited.example(), 3, value)
    stored, report = unlimited.push(*example)
    for name in unlimited.stored():
        np.testing.assert_allclose(stored[name][3], example.rows[name][3], rtol=1e-6)
        assert np.isfinite(stored[name]).all()
    assert float(report["violations"].sum()) == float(report["refused"].sum()) == report["refused"][3, 0] == 1
    assert "failed" not in report


def test_a_gradient_whose_square_overflows_leaves_its_row_as_it_was(unlimited: OperatorTrial) -> None:
    example = with_gradient(unlimited.example(), 2, 1e30)
    stored, report = unlimited.push(*example)
    for name in unlimited.stored():
        np.testing.assert_allclose(stored[name][2], example.rows[name][2], rtol=1e-6)
    assert report["refused"][2, 0] == 1


def test_skip_leaves_adams_moments_and_count_alone() -> None:
    trial = OperatorTrial(SAFETY, SafetyOptions(max_gradient=50, on_violation="skip"), after=(make("adam"),))
    example = with_gradient(trial.example(), 5, 60.0)
    stored, _ = trial.push(*example)
    for name in trial.stored():
        np.testing.assert_array_equal(stored[name][5], example.rows[name][5])
        assert (np.asarray(stored[name])[:5] != example.rows[name][:5]).any(1).all()


def test_fail_marks_the_row_beyond_a_limit_and_no_padding() -> None:
    trial = OperatorTrial(SAFETY, SafetyOptions(max_gradient=50, on_violation="fail"))
    example = with_gradient(with_gradient(trial.example(), 2, 60.0), 6, np.nan)
    _, report = trial.push(example.rows, example.gradients, context(SIZE, valid=6))
    np.testing.assert_array_equal(np.flatnonzero(report["failed"]), [2])


def test_a_violation_is_counted_once_per_row_and_push() -> None:
    trial = OperatorTrial(SAFETY, SafetyOptions(max_gradient=1e-3, max_update=1e-6, max_weight=1e-3))
    _, report = trial.push(*trial.example())
    np.testing.assert_array_equal(report["violations"], np.ones((SIZE, 1)))


def test_weights_stay_within_max_weight_however_long_a_gradient_pushes() -> None:
    trial = OperatorTrial(SAFETY, SafetyOptions(max_weight=0.25))
    rows, gradients, known = trial.example()
    for _ in range(30):
        stored, _ = trial.push(rows, np.full_like(gradients, -2.0), known)
        rows = {**rows, **stored}
    np.testing.assert_allclose(trial.pull(rows, known), np.full((SIZE, 2), 0.25), rtol=1e-5)


def test_a_weight_resting_on_its_limit_is_no_violation() -> None:
    trial = OperatorTrial(SAFETY, SafetyOptions(max_weight=0.25))
    rows, gradients, known = trial.example()
    for _ in range(30):
        rows = {**rows, **trial.push(rows, np.full_like(gradients, -2.0), known)[0]}
    _, report = trial.push(rows, np.zeros_like(gradients), known)
    assert not np.asarray(report["violations"]).any()


def test_the_first_operator_has_the_last_word_on_weights() -> None:
    limits = SafetyOptions(max_weight=0.01)
    first = OperatorTrial(SAFETY, limits, after=(make("regularize"), make("decay"), make("ftrl")))
    example = first.example()
    stored, _ = first.push(*example)
    weights = first.pull({**example.rows, **stored}, example.context._replace(age_seconds=np.zeros(SIZE, np.float32)))
    assert np.abs(weights).max() <= 0.01 * (1 + 1e-5)
