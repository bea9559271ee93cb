"""FTRL beyond its formula: how rows start, and what settling does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.examples import make
from xpsql.platform.errors import OptionError
from xpsql.platform.operators.base import TableSpec, pull
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.decay import DecayOptions
from xpsql.platform.operators.ftrl import FTRL, FtrlOptions, ftrl
from xpsql.testing.operators import SIZE, TABLE, OperatorTrial, context, initial_weights, keys, new_rows

OPTIONS = FtrlOptions(alpha=0.2, beta=0.7, l1=0.3, l2=0.4)


def test_a_new_row_of_an_embedding_table_has_the_tables_initial_weights() -> None:
    optimizer = chain(ftrl(OPTIONS, TABLE))
    weights = pull(optimizer, new_rows(optimizer, keys(SIZE)), context(SIZE))
    np.testing.assert_allclose(weights, initial_weights(0, keys(SIZE)), rtol=1e-6)


def test_a_table_without_init_starts_at_zero() -> None:
    optimizer = chain(ftrl(OPTIONS, TableSpec("weights", 2)))
    rows = new_rows(optimizer, keys(SIZE))
    assert not any(rows[name].any() for name in ("z", "n"))
    assert not np.asarray(pull(optimizer, rows, context(SIZE))).any()


def test_weights_of_one_coordinate_follow_the_golden_trajectory() -> None:
    trial = OperatorTrial(FTRL, OPTIONS)
    rows = {**new_rows(trial.chain, keys(1)), "z": np.zeros((1, 2), np.float32)}
    found = []
    for gradient in (1.0, -0.5, 0.25, 2.0):
        stored, _ = trial.push(rows, np.full((1, 2), gradient, np.float32), context(1))
        rows = {**rows, **{name: np.asarray(values) for name, values in stored.items()}}
        found.append(float(trial.pull(rows, context(1))[0, 0]))
    # By hand for the first: n = 1, z = 1, w = -(1 - 0.3) / ((0.7 + 1) / 0.2 + 0.4).
    np.testing.assert_allclose(found, [-0.07865169, -0.02596559, -0.05193094, -0.18159537], rtol=1e-5)


@pytest.mark.parametrize("power", [0.5, 0.625, 1.0])
def test_the_learning_rate_falls_with_a_power_of_the_squared_gradients(power: float) -> None:
    trial = OperatorTrial(FTRL, FtrlOptions(alpha=0.2, beta=0.7, power=power))
    rows = {**new_rows(trial.chain, keys(1)), "z": np.zeros((1, 2), np.float32)}
    w, n = 0.0, 0.0
    for gradient in (3.0, -0.5, 2.0):
        stored, _ = trial.push(rows, np.full((1, 2), gradient, np.float32), context(1))
        rows = {**rows, **{name: np.asarray(values) for name, values in stored.items()}}
        n += gradient**2
        w -= 0.2 / (0.7 + n**power) * gradient  # without penalties
        np.testing.assert_allclose(trial.pull(rows, context(1))[0], w, rtol=1e-5)


def test_a_power_between_eighths_is_refused() -> None:
    with pytest.raises(OptionError, match=r"power .* multiple of 0\.125"):
        ftrl(FtrlOptions(power=0.6), TABLE)


def test_weights_within_l1_are_exactly_zero() -> None:
    trial = OperatorTrial(FTRL, FtrlOptions(l1=10.0))
    rows = {**new_rows(trial.chain, keys(1)), "z": np.zeros((1, 2), np.float32)}
    stored, _ = trial.push(rows, np.ones((1, 2), np.float32), context(1))
    assert not np.asarray(trial.pull({**rows, **stored}, context(1))).any()
    assert np.asarray(stored["z"]).all()


@pytest.mark.parametrize("n", [1.0, 0.5])
def test_decaying_w_scales_the_weight_by_exactly_that_whatever_happens_to_n(n: float) -> None:
    plain, decaying = OperatorTrial(FTRL), OperatorTrial(FTRL, before=(make("decay", DecayOptions(w=0.8, n=n)),))
    example = plain.example()
    kept, scaled = (t.pull({**example.rows, **t.push(*example)[0]}, example.context) for t in (plain, decaying))
    np.testing.assert_allclose(scaled, 0.8 * np.asarray(kept), rtol=1e-5, atol=1e-7)
