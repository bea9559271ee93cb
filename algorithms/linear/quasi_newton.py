"""L-BFGS, and OWL-QN where there is an L1 penalty: the least of a convex function of many variables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..solver import Doubles

Function = Callable[[Doubles], tuple[float, Doubles]]

DECREASE = 1e-4  # of what the slope promises, that a step must bring
HALVINGS = 30
RECENT = 5  # iterations whose mean improvement is compared with the tolerance
CURVATURE = 1e-10
FLAT = 1e-12  # a slope for each unit of x, below which there is nothing to gain, and curvature is made of rounding errors


class Point(NamedTuple):
    """Where the search is: x, the smooth part's gradient there, the value of all, and the pseudo-gradient of all; both 0 for
    variables that their limit holds."""

    x: Doubles
    gradient: Doubles
    value: float
    slope: Doubles


class Memory:
    """The last steps and what they did to the gradient, from which curvature is estimated.

    Source: Nocedal and Wright, "Numerical Optimization", 2006, algorithm 7.4.
    """

    def __init__(self, size: int) -> None:
        self._pairs: deque[tuple[Doubles, Doubles, float]] = deque(maxlen=size)

    def add(self, step: Doubles, change: Doubles) -> None:
        """Take in a step and the change of the gradient, where the curvature between is positive."""
        curvature = dot(step, change)
        if curvature > CURVATURE * dot(change, change):
            self._pairs.append((step, change, 1 / curvature))

    def clear(self) -> None:
        self._pairs.clear()

    def direction(self, slope: Doubles) -> Doubles:
        """Return minus the inverse of the estimated curvature, times the slope."""
        q, room, factors = -slope, np.empty_like(slope), []
        for step, change, rho in reversed(self._pairs):
            factors.append(rho * dot(step, q))
            q -= np.multiply(change, factors[-1], out=room)
        if self._pairs:
            step, change, rho = self._pairs[-1]
            q /= rho * dot(change, change)
        else:
            q /= max(dot(slope, slope) ** 0.5, 1e-300)  # the first step has length 1
        for (step, change, rho), factor in zip(self._pairs, reversed(factors), strict=True):
            q += np.multiply(step, factor - rho * dot(change, q), out=room)
        return q


def dot(x: Doubles, y: Doubles) -> float:
    """Return the inner product by one thread: those of a BLAS wait for each other in a loop, which costs seconds where other
    processes have the cores, and give other bits for other numbers of cores."""
    return float(np.einsum("i,i", x, y))


def minimise(
    function: Function,
    start: Doubles,
    l1: Doubles,
    most: Doubles,
    iterations: int,
    tolerance: float,
    history: int,
    report: Callable[[int, float], None],
) -> Doubles:
    """Return where function(x) + sum of l1 |x| is least, among x of |x| <= most.

    The search ends after `iterations`, when the mean relative improvement of the last five is below `tolerance`, or where the
    slope is 0 but for rounding errors.

    Args:
        function: x -> value and gradient of the smooth part.
        start: float64[n].
        l1: float64[n], the penalty of each variable; 0 for none.
        most: float64[n], the limit of each variable; infinity for none.
        history: steps from which curvature is estimated.
        report: called with the iteration and the value, after each.

    Source: Andrew and Gao, "Scalable Training of L1-Regularized Log-Linear Models", ICML 2007; without a penalty it is L-BFGS.
    Variables that rest on their limit stay there while the slope leads beyond: Bertsekas, "Projected Newton Methods for
    Optimization Problems with Simple Constraints", SIAM Journal on Control and Optimization 1982.
    """
    limited = bool(np.isfinite(most).any())

    def evaluated(x: Doubles) -> Point:
        x = x.clip(-most, most) if limited else x
        value, gradient = function(x)
        slope = pseudo_gradient(x, gradient, l1)
        if limited:  # variables held by their limit are fixed here
            held = (np.abs(x) >= most) & (slope * x < 0)
            slope, gradient = np.where(held, 0.0, slope), np.where(held, 0.0, gradient)
        return Point(x, gradient, value + dot(l1, np.abs(x)), slope)

    at, memory = evaluated(start), Memory(history)
    values = deque([at.value], maxlen=RECENT + 1)
    for iteration in range(1, iterations + 1):
        if dot(at.slope, at.slope) <= FLAT**2 * max(1.0, dot(at.x, at.x)):
            break
        found = line_search(evaluated, at, memory.direction(at.slope), l1, most)
        if found is None:
            memory.clear()  # curvature may mislead; steepest descent cannot
            found = line_search(evaluated, at, memory.direction(at.slope), l1, most)
        if found is None:
            break
        if limited and ((found.gradient == 0) != (at.gradient == 0)).any():
            memory.clear()  # its estimate is of other variables
        else:
            memory.add(found.x - at.x, found.gradient - at.gradient)
        at = found
        values.append(at.value)
        report(iteration, at.value)
        if len(values) > RECENT and (values[0] - values[-1]) / RECENT <= tolerance * max(abs(at.value), 1e-300):
            break
    return at.x


def pseudo_gradient(x: Doubles, gradient: Doubles, l1: Doubles) -> Doubles:
    """Return the gradient of all where it exists; at x = 0 the one-sided derivative that descends, 0 where none does.

    Source: Andrew and Gao 2007, equation 4.
    """
    if not l1.any():
        return gradient
    right, left = gradient + l1, gradient - l1
    at_zero = np.where(right < 0, right, np.where(left > 0, left, 0.0))
    return np.where(x == 0, at_zero, gradient + l1 * np.sign(x))


def line_search(
    evaluated: Callable[[Doubles], Point], at: Point, direction: Doubles, l1: Doubles, most: Doubles
) -> Point | None:
    """Return the first point along a direction, halving the step, that is low enough; None where there is none.

    The direction loses, in place, what leads uphill.

    Variables with a penalty keep their sign, or become 0: they are projected on the orthant that the search is in. Those on
    their limit do not move outwards.
    """
    direction[(np.abs(at.x) >= most) & (direction * at.x > 0)] = 0
    penalised = np.flatnonzero(l1)
    downhill = direction[penalised] * at.slope[penalised] < 0
    direction[penalised] *= downhill
    if not dot(direction, at.slope) < 0:
        return None
    own = at.x[penalised]
    orthant = np.where(own != 0, np.sign(own), -np.sign(at.slope[penalised]))
    step = 1.0
    for _ in range(HALVINGS):
        x = at.x + step * direction
        x[penalised] *= np.sign(x[penalised]) == orthant
        found = evaluated(x)
        if found.value <= at.value + DECREASE * dot(at.slope, found.x - at.x):
            return found
        step /= 2
    return None
