"""Auto-session: what it counts and offers, against plain numpy, and which half-lives it takes."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import lengthy, slow
from tests.operators.examples import make
from tests.operators.numpy_operators import AutoSession, Row
from xpsql.platform.errors import OptionError
from xpsql.platform.operators.auto_session import AUTO_SESSION, AutoSessionOptions
from xpsql.platform.operators.base import Operator
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.ftrl import FTRL
from xpsql.testing.operators import DIM, SIZE, OperatorTrial, any_padded_size_gives_the_same_bits, context

OPTIONS = AutoSessionOptions("3 examples", "2 hours", "40 examples", prior=1.5)
NAMES = ("session_shows", "session_clicks")


def offered(operator: Operator, session: np.ndarray, base_rate: float) -> np.ndarray:
    assert operator.offer is not None
    rows = dict(zip(NAMES, session.astype(np.float32), strict=True))
    return np.asarray(jax.jit(operator.offer)(rows, context(session.shape[1])._replace(base_rate=jnp.float32(base_rate))))


@lengthy
@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    shows=st.lists(st.floats(0, 1e6), min_size=3, max_size=3),
    shares=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    base_rate=st.floats(0.001, 0.999),
)
def test_what_is_offered_follows_its_formula(shows: list[float], shares: list[float], base_rate: float) -> None:
    session = np.array([shows, np.multiply(shows, shares)])
    row = Row(np.zeros(0), np.zeros(0), np.zeros(0), session=session)
    found = offered(make("auto_session", OPTIONS), session[:, None], base_rate)
    np.testing.assert_allclose(found[0], AutoSession(OPTIONS).offer(row, base_rate), rtol=2e-3, atol=2e-3)


def test_a_row_without_history_says_as_usual_and_one_without_recent_history_what_the_longer_horizon_says() -> None:
    operator = make("auto_session", OPTIONS)
    np.testing.assert_allclose(offered(operator, np.zeros((2, 1, 3)), 0.2), 0, atol=1e-6)
    session = np.array([[[0, 0, 90]], [[0, 0, 30]]])
    np.testing.assert_allclose(offered(operator, session, 0.2)[0], [np.log(30.3 / 61.2) - np.log(0.25)] * 3, rtol=1e-3)


@pytest.mark.parametrize("base_rate", [0.0, 1.0])
@pytest.mark.parametrize("end", ["minimum", "maximum"])
def test_what_is_offered_is_finite_before_and_after_any_example(base_rate: float, end: str) -> None:
    limits = {field.name: field.metadata["limits"] for field in dataclasses.fields(AutoSessionOptions)}
    prior = getattr(limits["prior"], end)
    session = np.array([[[0, 0, 0], [4e9, 4e9, 4e9], [5, 5, 5]], [[0, 0, 0], [0, 0, 0], [5, 5, 5]]])
    assert np.isfinite(offered(make("auto_session", AutoSessionOptions(prior=prior)), session, base_rate)).all()


def test_many_examples_in_one_push_count_as_one_after_the_other() -> None:
    trial = OperatorTrial(AUTO_SESSION, AutoSessionOptions("5 examples", "100 examples", "1000000 examples"))
    rows, gradients, known = trial.example()
    many = known._replace(count=np.full(SIZE, 40, np.uint32), clicks=np.full(SIZE, 40, np.uint32))
    single = known._replace(count=np.ones(SIZE, np.uint32), clicks=np.ones(SIZE, np.uint32))
    at_once = trial.push(rows, gradients, many)[0]
    for _ in range(40):
        rows = {**rows, **trial.push(rows, gradients, single)[0]}
    for name in NAMES:
        np.testing.assert_allclose(at_once[name], rows[name], rtol=1e-4)


def test_weights_are_what_they_are_without_it() -> None:
    plain, counting = OperatorTrial(FTRL), OperatorTrial(AUTO_SESSION, OPTIONS)
    example = counting.example()
    for found, expected in zip(counting.push(*example), plain.push(*example), strict=True):
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])


def test_time_is_needed_for_half_lives_in_time_only() -> None:
    assert not make("auto_session", AutoSessionOptions()).needs_time
    assert make("auto_session", AutoSessionOptions(long="30 days")).needs_time


@pytest.mark.parametrize("text", ["20", "examples", "0 examples", "-1 examples", "2 fortnights", ""])
def test_other_half_lives_are_refused_with_the_units(text: str) -> None:
    with pytest.raises(OptionError, match=r"Option mid of operator auto_session expects .*\(examples, seconds, .*got"):
        make("auto_session", AutoSessionOptions(mid=text))


def test_it_is_named_once_in_a_chain() -> None:
    with pytest.raises(ValueError, match=r"auto_session keeps the column 'session_shows', .*: name such an operator once"):
        chain(make("auto_session"), make("auto_session"), make("ftrl"))


def test_a_chain_offers_and_counts_by_pass_what_its_operators_do() -> None:
    composed = chain(make("safety"), chain(make("auto_session"), make("ftrl")))
    assert (composed.offers, composed.per_pass) == (("ctr_short", "ctr_mid", "ctr_long"), NAMES)
    assert composed.offer is not None
    assert composed.columns["session_shows"].dim == 3 != DIM
    plain = chain(make("safety"), make("ftrl"))
    assert (plain.offers, plain.offer, plain.per_pass) == ((), None, ())


@slow  # XLA's older way of loops, by which make test compiles, rounds by the size
def test_what_is_offered_does_not_depend_on_how_many_rows_a_program_has_room_for() -> None:
    any_padded_size_gives_the_same_bits(OperatorTrial(AUTO_SESSION))  # horizons in examples, unlike the suite's
