"""Decay by time: lazy, exact, and the same for pulls and pushes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.examples import make
from xpsql.platform.errors import OptionError, Subject
from xpsql.platform.operators.base import Context
from xpsql.platform.operators.decay import DECAY, DecayOptions
from xpsql.platform.operators.duration import duration_seconds
from xpsql.testing.operators import SIZE, Arrays, OperatorTrial, context

DAY = 86_400.0


@pytest.fixture(scope="module", params=["ftrl", "sgd"])
def trial(request: pytest.FixtureRequest) -> OperatorTrial:
    return OperatorTrial(DECAY, DecayOptions(half_life="7 days"), after=(make(request.param),))


def aged(seconds: float) -> Context:
    return context(SIZE)._replace(age_seconds=np.full(SIZE, seconds, np.float32))


def pushed(trial: OperatorTrial, rows: Arrays, gradients: np.ndarray, seconds: float) -> Arrays:
    return {**rows, **{name: np.asarray(v) for name, v in trial.push(rows, gradients, aged(seconds))[0].items()}}


def test_a_pull_after_one_half_life_sees_half_the_weight(trial: OperatorTrial) -> None:
    rows, _, _ = trial.example()
    now = np.asarray(trial.pull(rows, aged(0)))
    np.testing.assert_allclose(trial.pull(rows, aged(7 * DAY)), now / 2, rtol=1e-5, atol=1e-8)


def test_decay_in_pieces_equals_decay_at_once(trial: OperatorTrial) -> None:
    rows, gradients, _ = trial.example()
    still = np.zeros_like(gradients)
    pieces = rows
    for days in (1, 2, 4):
        pieces = pushed(trial, pieces, still, days * DAY)
    np.testing.assert_allclose(trial.pull(pieces, aged(0)), trial.pull(rows, aged(7 * DAY)), rtol=1e-5, atol=1e-8)


def test_a_push_learns_on_the_weights_that_a_pull_of_that_moment_saw(trial: OperatorTrial) -> None:
    rows, gradients, _ = trial.example()
    brought_up = pushed(trial, rows, np.zeros_like(gradients), 3 * DAY)
    direct = trial.pull(pushed(trial, rows, gradients, 3 * DAY), aged(0))
    np.testing.assert_allclose(direct, trial.pull(pushed(trial, brought_up, gradients, 0), aged(0)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "seconds"), [("7 days", 604_800), ("1 hour", 3600), ("1.5 MINUTES", 90), ("2weeks", 1_209_600), (" 3 seconds ", 3)]
)
def test_durations_are_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert duration_seconds(text, Subject("OPERATORS", "decay", "half_life")) == seconds


@pytest.mark.parametrize("text", ["7", "days", "0 days", "-1 day", "7 lightyears", "", "1 day 2 hours"])
def test_other_durations_are_refused_with_the_units(text: str) -> None:
    with pytest.raises(OptionError, match=r"Option half_life of operator decay expects .*days.* such as '7 days', got"):
        make("decay", DecayOptions(half_life=text))


def test_halving_an_unknown_column_is_refused() -> None:
    with pytest.raises(OptionError, match="takes names among w, z, n, got 'v'"):
        make("decay", DecayOptions(half_life="1 day", halves=("v",)))
