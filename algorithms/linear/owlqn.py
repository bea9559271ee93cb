"""OWL-QN: a sparse linear model of all data at once, to the optimum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ...platform.operators.base import Column, Operator, TableSpec
from ...platform.options import Part, given_or, option
from ...platform.options import known as value_of
from ...platform.registry import AT_ONCE
from ..base import Algorithm, Inputs, Intercept, Layout, Solved, Supervised
from ..layers.pooling import pooled
from ..losses import LOGLOSS, POISSON, SQUARED, Loss, make_quantile, quantile_option
from ..rates import penalty_of
from ..solver import Doubles, Objective, SolverInput
from .quasi_newton import dot, minimise
from .scores import linear_scores, pooling_option, sums_of

PATH = (64, 8, 1, 1 / 8, 1 / 64)
"""Of the usual L2 penalty, those that are tried where rows are held out, each from the weights of the one before."""
CURVATURE = {"logloss": 0.25, "squared": 1.0, "quantile": 1.0, "poisson": 1.0}  # the most that a loss bends, by its score
ROUNDED = 0.001
"""Standard deviations on both sides of a quantile within which its loss bends, as a search by curvature needs."""


@dataclass(frozen=True)
class OwlqnOptions:
    loss: str = option(
        "logloss",
        "what is minimised; squared takes any number as label; quantile, too, and predicts the quantile `at`; poisson takes "
        "counts and other numbers of at least 0, and finds the logarithm of their mean",
        choices=tuple(CURVATURE),
    )
    at: float = quantile_option()
    l1: float = option(0.0, "L1 penalty, against the sum of losses; raise it for fewer weights that are not 0", minimum=0)
    l2: float | None = option(
        None,
        "L2 penalty, against the sum of losses; by default half the number of slots, with VALIDATE that, 8 or 64 times it, or "
        "an 8th or a 64th of it, whichever is best on the rows held out; lower it where features are seen often",
        minimum=0,
    )
    iterations: int = option(
        100,
        "steps at most, each reads the data in memory once or twice; raise it where the objective still falls at the end",
        minimum=1,
        maximum=100_000,
    )
    tolerance: float = option(1e-5, "relative improvement below which it ends; lower it for more exact weights", minimum=0)
    history: int = option(
        10,
        "steps from which curvature is estimated; each takes 16 bytes per feature; fewer where memory is short",
        minimum=1,
        maximum=1000,
    )
    pooling: str = pooling_option()
    intercept: bool = option(True, "learn an intercept, which has no penalty; false if a score without features must be 0")

    def adapted(self, layout: Layout) -> OwlqnOptions:
        """See `adapted` of platform/options."""
        return given_or(self, l2=penalty_of(layout))


def owlqn(options: OwlqnOptions, layout: Layout) -> Algorithm:
    """Find the weights of least loss and penalty over the whole data, by L-BFGS, or by OWL-QN with an L1 penalty.

        sum of losses + l1 sum |w| + l2 / 2 sum w^2

    Every worker keeps its examples encoded in memory, 4 bytes for each value, and their gradients are summed for each step.
    CONTINUE begins at the weights of its version and minimises over the new data; features without new examples stay as
    they are. The training's metrics are of the final weights, on the examples that they were found on. It takes the
    operators `regularize`, with penalties by frequency, and `safety (max_weight = x)`.

    Source: Andrew and Gao, "Scalable Training of L1-Regularized Log-Linear Models", ICML 2007; Liu and Nocedal, "On the Limited
    Memory BFGS Method for Large Scale Optimization", Mathematical Programming 1989.
    """
    penalty = value_of(options.adapted(layout).l2)
    path = tuple(penalty * by for by in PATH) if options.l2 is None else ()
    loss = loss_named(options.loss, options.at)

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        return linear_scores(parameters["weights"], pooled(inputs, layout, options.pooling))

    def solve(objective: Objective, known: SolverInput, report: Callable[[int, float], None]) -> Doubles:
        strengths = options.l1 + known.l1, penalty + known.l2
        l1, l2 = (np.where(known.intercept, 0.0, strength) for strength in strengths)
        unit = 1 / np.sqrt(CURVATURE[options.loss] * known.counts + l2)  # weights are sought in these: all bend about alike

        def smooth(z: Doubles) -> tuple[float, Doubles]:
            x = unit * z
            value, gradient = objective(x)
            shrinking = l2 * x
            gradient += shrinking
            gradient *= unit
            return value + 0.5 * dot(shrinking, x), gradient

        settings = options.iterations, options.tolerance, options.history
        found = unit * minimise(smooth, known.start / unit, l1 * unit, known.most / unit, *settings, report)
        return found.clip(-known.most, known.most)  # but for rounding it is

    return Algorithm(
        tables=(TableSpec("weights", 1),),
        optimizer=lambda table: Operator({"w": Column(table.dim)}, optimizer=True, name="owlqn"),
        learns=Solved(Supervised(scores, loss, sums=sums_of(loss, None, options.pooling)), solve, penalty, path),
        intercept=Intercept() if options.intercept else None,
    )


def loss_named(name: str, at: float) -> Loss:
    """Return a loss; that of a quantile is rounded where it has a corner."""
    if name != "quantile":
        return {"logloss": LOGLOSS, "squared": SQUARED, "poisson": POISSON}[name]
    return make_quantile(at)._replace(value=partial(rounded_quantile, at))


def rounded_quantile(at: float, scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the pinball loss with a parabola in place of its corner.

    Source: Chen, "A Finite Smoothing Algorithm for Quantile Regression", Journal of Computational and Graphical Statistics
    2007.
    """
    above = labels - scores
    bent = jnp.where(jnp.abs(above) < ROUNDED, (above**2 / ROUNDED + ROUNDED) / 2, jnp.abs(above))
    return bent / 2 + (at - 0.5) * above


OWLQN = Part("owlqn", OwlqnOptions, owlqn, AT_ONCE)
