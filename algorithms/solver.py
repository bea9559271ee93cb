"""The contract of solvers, which find the weights from all examples at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Objective = Callable[[Doubles], tuple[float, Doubles]]
"""Weights of all features -> the weighted sum of losses over all examples, and its gradient."""


class SolverInput(NamedTuple):
    """What is known of weights that are found from all examples at once.

    Attributes:
        start: float64[n], their first values.
        counts: float64[n], how often the feature of each occurs.
        intercept: bool[n], whether a weight is the intercept's, which has no penalty.
        l1, l2: float64[n] or 0, the strengths of penalties that operators ask for beside the algorithm's own.
        most: what |w| may be; infinity for no limit.
    """

    start: Doubles
    counts: Doubles
    intercept: NDArray[np.bool_]
    l1: Doubles | float = 0.0
    l2: Doubles | float = 0.0
    most: float = math.inf


Solve = Callable[[Objective, SolverInput, Callable[[int, float], None]], Doubles]
"""(objective, known facts about the weights, callback for each iteration and its value) -> weights, float64[n]."""
