"""Regularize: strengths by frequency, and what by_frequency takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.examples import make
from xpsql.platform.errors import OptionError
from xpsql.platform.operators.regularize import REGULARIZE, RegularizeOptions, frequency_ranges
from xpsql.testing.operators import DIM, SIZE, OperatorTrial, context

SGD = make("sgd")


def test_the_strength_is_that_of_the_first_range_that_holds_the_count_of_a_row() -> None:
    options = RegularizeOptions("l1", strength=0.25, by_frequency=((10, 1.0), (1000, 0.5)))
    trial = OperatorTrial(REGULARIZE, options, after=(SGD,))
    counts = np.array([0, 8, 9, 10, 998, 999, 1000, 2**32 - 1], np.uint32)
    rows = {**trial.example().rows, "w": np.full((SIZE, DIM), 4.0, np.float32), "count": counts}
    known = context(SIZE)._replace(count=np.ones(SIZE, np.uint32))
    stored, _ = trial.push(rows, np.zeros((SIZE, DIM), np.float32), known)
    np.testing.assert_array_equal(4 - np.asarray(stored["w"])[:, 0], [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25])


def test_group_lasso_zeroes_a_row_as_a_whole_and_keeps_a_zero_row_zero() -> None:
    trial = OperatorTrial(REGULARIZE, RegularizeOptions("group", 1.0), after=(SGD,))
    w = np.zeros((SIZE, DIM), np.float32)
    w[1], w[2] = (0.5, 0.6), (3.0, 4.0)
    stored, _ = trial.push({**trial.example().rows, "w": w}, np.zeros_like(w), context(SIZE))
    np.testing.assert_allclose(stored["w"][:3], [[0, 0], [0, 0], [2.4, 3.2]], rtol=1e-6)


@pytest.mark.parametrize("given", [(), (10, 1e-3), ((10, 1e-3),), ((10, 1e-3), (1000, 0))])
def test_pairs_of_count_and_strength_are_taken(given: tuple[Any, ...]) -> None:
    assert all(bound in (10, 1000) and 0 <= strength <= 1e-3 for bound, strength in frequency_ranges(given))


@pytest.mark.parametrize(
    "given",
    [
        (10,),
        ((10, 1, 2),),
        (("x", 1),),
        ((10, -1.0),),
        ((1000, 1), (10, 1)),
        ((10, 1), (10, 2)),
        ((0, 1),),
        ((10, float("nan")),),
        ((float("inf"), 1.0),),
        ((2**32, 1.0),),
        ((10, 1e39),),
    ],
)
def test_other_values_of_by_frequency_are_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(OptionError, match="by_frequency of operator regularize expects"):
        make("regularize", RegularizeOptions(by_frequency=given))
