"""Default learning rates, by the slots of a model and its loss."""

from __future__ import annotations

import math

from ..platform.operators.base import Operator, TableSpec
from ..platform.operators.ftrl import FtrlOptions, ftrl
from ..platform.options import option
from .inputs import Layout

CURVATURE = {"squared": 1.0, "quantile": 1.0, "poisson": 1.0}
"""How much a loss bends by its score, at most, or is taken to; others bend as logloss does."""
LOGISTIC = 0.25
LARGEST = 2.0  # of few slots
DAMPING, POWER = 1.5, 0.625
OF_VECTORS, LARGEST_OF_VECTORS = 0.1, 0.4
OF_FIELD_VECTORS, OF_FEW_FIELDS = 0.0625, 0.2
DAMPING_OF_VECTORS, PAIRS_TO_DAMP = 0.3, 150
SPREAD = 0.06
OF_INTERESTS, LARGEST_OF_INTERESTS = 0.2, 0.1
VARIANCE = 2.0
ARRAYS = 6
"""Slots that an array or map counts as: by root, n values together move a score by up to the root of n times what one does."""


def moved(layout: Layout) -> int:
    """Return how many inputs of an example move its score at once."""
    return layout.active + (ARRAYS - 1) * len(layout.bags)


def rate_of(layout: Layout, loss: str = "logloss") -> float:
    """Return the learning rate of weights: a step of 1 / (curvature x features of an example) reaches the least loss of an
    example, as all its weights move at once; a longer one goes too far.

    With `weights_by` it falls from there as a feature is seen, sooner than with AdaGrad, so that rare features may begin fast.
    """
    return round(min(LARGEST, 1 / (CURVATURE.get(loss, LOGISTIC) * moved(layout))), 4)


def vector_rate_of(layout: Layout, loss: str = "logloss") -> float:
    """Return the learning rate of vectors that meet each other: what one meets, the sum of the others, grows with the root of
    their number. It is that of features seen often; `vectors_by` damps the first steps."""
    return round(min(LARGEST_OF_VECTORS, OF_VECTORS / (CURVATURE.get(loss, LOGISTIC) * math.sqrt(moved(layout)))), 4)


def field_vector_rate_of(layout: Layout, loss: str = "logloss") -> float:
    """Return the learning rate of vectors of which each meets one other of an example, not the sum of them."""
    slots = moved(layout)
    rate = max(OF_FIELD_VECTORS / math.sqrt(slots), OF_FEW_FIELDS / slots)
    return round(min(LARGEST_OF_VECTORS, rate / CURVATURE.get(loss, LOGISTIC)), 4)


def interest_rate_of(layout: Layout) -> float:
    """Return the learning rate of vectors whose products say how well a history matches a target: from vectors that hardly move
    nothing of them can be told apart, and the layers learn to do without."""
    return round(min(LARGEST_OF_INTERESTS, OF_INTERESTS / math.sqrt(layout.active)), 4)


def alpha_option() -> float | None:
    """Return the declaration of `alpha`, for which `rate_of` stands where it is not given."""
    rate: float | None = option(
        None,
        "learning rate of the weights; by default 4 over the number of slots, an array or map counting as six, at most 2, with "
        "loss = 'squared', 'quantile' or 'poisson' 1 over it",
        minimum=0,
        open_minimum=True,
        optimizer=True,
    )
    return rate


def penalty_of(layout: Layout) -> float:
    """Return the L2 penalty against the sum of losses that expects of an example's weights, whatever its slots are, a sum whose
    variance is 2."""
    return layout.active / VARIANCE


def spread_of(layout: Layout) -> float:
    """Return the standard deviation of new vectors with which the sum of an example's is as long whatever its slots are; from 0
    none would begin to move."""
    return round(SPREAD / math.sqrt(layout.active), 4)


def weights_by(alpha: float, table: TableSpec, beta: float = DAMPING, l1: float = 0.0, l2: float = 0.0) -> Operator:
    """Return the optimizer of weights."""
    return ftrl(FtrlOptions(alpha=alpha, beta=beta, power=POWER, l1=l1, l2=l2), table)


def vectors_by(alpha: float, table: TableSpec, meets: int = 1) -> Operator:
    """Return the optimizer of vectors that meet each other: the more pairs of an example move its score by them at once, the
    more it damps first steps, so that vectors of rare features do not learn errors that those of frequent ones make meanwhile.

    Args:
        meets: how many vectors of an example meet the others with all their elements.
    """
    return ftrl(FtrlOptions(alpha=alpha, beta=DAMPING_OF_VECTORS + meets * (meets - 1) / 2 / PAIRS_TO_DAMP), table)
