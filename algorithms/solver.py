"""What an algorithm is given that finds the weights of all examples at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Objective = Callable[[Doubles], tuple[float, Doubles]]
"""Weights of all features -> the weighted sum of losses over all examples, and its gradient."""


class Known(NamedTuple):
    """What is known of weights that are found from all examples at once.

    Attributes:
        start: float64[n], their first values.
        counts: float64[n], how often the feature of each occurs.
        intercept: bool[n], those of the intercept, which have no penalty.
    """

    start: Doubles
    counts: Doubles
    intercept: NDArray[np.bool_]


Solve = Callable[[Objective, Known, Callable[[int, float], None]], Doubles]
"""(objective, what is known of the weights, told each iteration and the value that it reached) -> weights, float64[n]."""
