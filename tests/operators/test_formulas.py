"""Every operator with ftrl, alone and in every order of pairs, against plain numpy on random pushes."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.cases import costly_after_first
from tests.operators.examples import EXAMPLES, PARTS, TRANSFORMS, make
from tests.operators.numpy_operators import NUMPY, Event, Ftrl, numpy_push
from xpsql.platform.operators.auto_session import AutoSessionOptions
from xpsql.platform.operators.decay import DecayOptions
from xpsql.platform.operators.delay_compensation import DelayCompensationOptions
from xpsql.platform.operators.ftrl import FtrlOptions
from xpsql.platform.operators.gradient_average import GradientAverageOptions
from xpsql.platform.operators.regularize import RegularizeOptions
from xpsql.platform.operators.safety import SafetyOptions
from xpsql.platform.operators.staleness_discount import StalenessDiscountOptions
from xpsql.testing.operators import DIM, TABLE, OperatorTrial, context, initial_weights, keys, new_rows

ROWS, STEPS = 4, 3
VARIANTS: dict[str, tuple[Any, ...]] = {
    "gradient_average": (
        *(GradientAverageOptions(mode) for mode in ("none", "count", "log")),
        *(GradientAverageOptions(mode, "count") for mode in ("none", "count", "sqrt", "log")),
    ),
    "staleness_discount": tuple(StalenessDiscountOptions(mode, limit=2) for mode in ("inverse", "threshold", "polynomial")),
    "delay_compensation": (DelayCompensationOptions(0.0), DelayCompensationOptions(0.1)),
    "safety": (
        SafetyOptions(),
        SafetyOptions(1.7317, on_violation="skip"),
        SafetyOptions(max_update=0.1093, on_violation="fail"),
    ),
    "regularize": tuple(RegularizeOptions(penalty, 0.037) for penalty in ("l1", "l2", "group")),
    "decay": (
        DecayOptions(w=0.5, n=0.9),
        DecayOptions(z=0.8),
        DecayOptions(z=0.8, n=0.8),
        DecayOptions(half_life="36 hours", halves=("z", "n")),
        DecayOptions(w=0.9, half_life="1 week", halves=("w", "n")),
    ),
    "auto_session": (AutoSessionOptions(), AutoSessionOptions("90 seconds", "1 hour", "2 weeks")),
    "ftrl": (FtrlOptions(), FtrlOptions(0.5, 0.1, 0.0, 3.0), FtrlOptions(0.05, 1.0, 2.0)),
}
SINGLE = [(name, options) for name, variants in VARIANTS.items() for options in (*variants, EXAMPLES[name])]

Pushes = list[dict[str, Any]]


@st.composite
def pushes(draw: st.DrawFn) -> Pushes:
    """Draw STEPS pushes to the same ROWS rows.

    Numbers are multiples of 2^-10, which no limit of an operator is: on a limit, float32 and the reference may disagree.
    """
    numbers = st.integers(-4096, 4096).map(lambda n: n / 1024)
    step = st.fixed_dictionaries(
        {
            "gradients": arrays(np.float32, (ROWS, DIM), elements=numbers),
            "count": arrays(np.uint32, ROWS, elements=st.integers(1, 5)),
            "clicks": arrays(np.uint32, ROWS, elements=st.integers(0, 1)),
            "staleness": arrays(np.uint32, ROWS, elements=st.integers(0, 5)),
            "pulled": arrays(np.float32, (ROWS, DIM), elements=numbers.map(lambda number: number / 4)),
            "age_seconds": arrays(np.float32, ROWS, elements=st.integers(0, 10**6)),
        }
    )
    return [draw(step) for _ in range(STEPS)]


@cache
def trial_of(names: tuple[str, ...], options: tuple[Any, ...]) -> OperatorTrial:
    """Return the compiled chain of these operators, shared by hypothesis' examples."""
    first, *rest = (make(name, o) for name, o in zip(names, options, strict=True))
    return OperatorTrial(PARTS[names[-1]], options[-1], before=(first, *rest[:-1]) if rest else ())


def assert_agrees(trial: OperatorTrial, names: tuple[str, ...], options: tuple[Any, ...], drawn: Pushes) -> None:
    """Run the pushes through the chain and through numpy, and compare rows and reports after each."""
    *operators, ftrl = ((NUMPY.get(n, Ftrl))(o) for n, o in zip(names, options, strict=True))
    rows = new_rows(trial.chain, keys(ROWS))
    expected = [ftrl.start(w) for w in np.asarray(initial_weights(0, keys(ROWS)), np.float64)]
    for step in drawn:
        known = context(ROWS)._replace(**{name: v for name, v in step.items() if name != "gradients"})
        stored, report = trial.push(rows, step["gradients"], known)
        rows = {**rows, **{name: np.asarray(v) for name, v in stored.items()}, "count": rows["count"] + step["count"]}
        for i in range(ROWS):
            event = Event(
                step["gradients"][i].astype(np.float64),
                int(step["count"][i]),
                int(rows["count"][i]),
                int(step["staleness"][i]),
                step["pulled"][i].astype(np.float64),
                float(step["age_seconds"][i]),
                int(step["clicks"][i]),
            )
            expected[i] = numpy_push(operators, ftrl, expected[i], event)
            for name in ("z", "n"):
                np.testing.assert_allclose(
                    rows[name][i], getattr(expected[i], name), rtol=1e-3, atol=1e-3, err_msg=f"{names} {name}"
                )
            for name, values in zip(("session_shows", "session_clicks"), expected[i].session, strict=True):
                if name in rows:
                    np.testing.assert_allclose(rows[name][i], values, rtol=1e-4, atol=1e-6, err_msg=f"{names} {name}")
            assert {name for name, flags in report.items() if flags[i, 0]} == expected[i].flags
    weights = trial.pull(rows, context(ROWS)._replace(age_seconds=np.zeros(ROWS, np.float32)))
    np.testing.assert_allclose(weights, [ftrl.weights(row.z, row.n) for row in expected], rtol=1e-3, atol=1e-4)


@costly_after_first
@pytest.mark.parametrize(("name", "options"), SINGLE, ids=lambda value: value if isinstance(value, str) else None)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(drawn=pushes())
def test_an_operator_equals_its_formula(name: str, options: Any, drawn: Pushes) -> None:
    chained = (name,) if name == "ftrl" else (name, "ftrl")
    chosen = (options,) if name == "ftrl" else (options, EXAMPLES["ftrl"])
    assert_agrees(trial_of(chained, chosen), chained, chosen, drawn)


@costly_after_first
@pytest.mark.parametrize("pair", tuple(itertools.permutations(NUMPY, 2)), ids="-".join)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(drawn=pushes())
def test_a_pair_of_operators_equals_its_formulas_in_this_order(pair: tuple[str, str], drawn: Pushes) -> None:
    names = (*pair, "ftrl")
    options = tuple(EXAMPLES[name] for name in names)
    assert_agrees(trial_of(names, options), names, options, drawn)


def test_every_operator_that_changes_numbers_has_a_formula_here() -> None:
    lifecycle, passes = {"recent", "admit", "expire"}, {"renew", "later_passes"}  # ps/test_lifecycle.py, training/test_renew.py
    assert set(TRANSFORMS) - set(NUMPY) == lifecycle | passes


def test_the_table_of_the_suite_has_weights_that_differ() -> None:
    assert TABLE.init is not None
    assert len(np.unique(np.asarray(TABLE.init(0, keys(ROWS))))) == ROWS * DIM
