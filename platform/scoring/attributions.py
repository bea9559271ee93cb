"""Attributions: what each slot of an example adds to its score, from the mean score of other examples as the baseline."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Algorithm
from ...algorithms.learner import Learner
from ...warehouse.package import read_package
from ..input.batches import Batch
from ..input.columns import Columns
from ..input.operator_inputs import offered_of
from ..input.scaling import Scales, deviation, scale
from ..ps.messages import Keys, Pulled
from ..training.online.step import chosen, inputs_of
from ..training.packaged.matrix import TABLE, column_names, matrix_of, starts_of
from .integrated_gradients import slope_step

if TYPE_CHECKING:
    from ...warehouse.version import Version

Doubles = NDArray[np.float64]

EXACT = (1,)
STEPS = (16, 64, 256)
"""Points on the path from no slots to all; more where fewer leave too much unexplained."""
TOLERANCE = 0.01


class MeanScores(NamedTuple):
    """Examples that others are compared with: the means of their scores, float64[num_labels], and of their attributions,
    float64[num_labels, num_slots]."""

    score: Doubles
    by_slot: Doubles


class Attributed(NamedTuple):
    """Scores taken apart: of probabilities log odds, of other labels in their unit.

    Attributes:
        baseline, score: float64[n, num_labels]; of the example without slots, or of a reference, and of the example itself.
        by_slot: float64[n, num_labels, num_slots], in the order of Layout.slots.
    """

    baseline: Doubles
    score: Doubles
    by_slot: Doubles

    @property
    def error(self) -> Doubles:
        """What attributions and baseline leave of the score unexplained, as a share of the sum of all attributions' sizes;
        float64[n, num_labels]."""
        rest = np.abs(self.score - self.baseline - self.by_slot.sum(axis=2))
        size = np.abs(self.by_slot).sum(axis=2)
        error: Doubles = np.divide(rest, size, out=np.zeros_like(rest), where=size > 0)
        return error

    def against(self, reference: MeanScores) -> Attributed:
        """Return what each slot adds to the mean score of a reference: what it adds to nothing, less what it adds there on
        average."""
        baseline = np.broadcast_to(reference.score, self.baseline.shape)
        return Attributed(baseline, self.score, self.by_slot - reference.by_slot)


Attribute = Callable[[Batch], Attributed]


def attribution(
    version: Version, algorithm: Algorithm, columns: Columns, pull: Callable[[Keys, int], Pulled], scales: Scales
) -> Attribute:
    """Return a function that attributes the scores of a version with labels, batch by batch."""
    if (learner := algorithm.learns.learner) is not None:
        return by_package(version, learner, columns, pull)
    return by_gradients(algorithm, columns, pull, scales)


def by_gradients(algorithm: Algorithm, columns: Columns, pull: Callable[[Keys, int], Pulled], scales: Scales) -> Attribute:
    """Integrate the gradient of the score over the path on which all slots come in evenly.

    The points are Gauss-Legendre nodes, so that one point is exact for scores that are sums over features or pairs of them;
    their attributions are Shapley values.

    Source: Sundararajan, Taly and Yan, "Axiomatic Attribution for Deep Networks", ICML 2017, with the rows of an example's
    features as its input, and zeros as the baseline.
    """
    step = slope_step(algorithm, columns.layout)
    steps = EXACT if algorithm.sums is not None else STEPS

    def attribute(batch: Batch) -> Attributed:
        pulled, examples = pull(batch.keys, batch.size), batch.examples
        batch = chosen(algorithm, batch, pulled)
        inputs = inputs_of(batch, scale(batch.dense, scales.slots, len(batch.weight)), None)
        offered, parameters = offered_of(batch, pulled.offered), {**pulled.weights, **pulled.dense}
        at = functools.partial(step, parameters, inputs, offered)
        none, whole = (np.asarray(at(np.float32(presence)).scores)[:examples].astype(np.float64) for presence in (0, 1))
        for count in steps:
            points = zip(*points_of(count), strict=True)
            by_slot = sum(weight * np.asarray(at(np.float32(point)).by_slot)[:examples] for point, weight in points)
            found = Attributed(none, whole, np.asarray(by_slot))
            if (found.error <= TOLERANCE).all():
                break
        return restored(found, scales)

    return attribute


@functools.cache
def points_of(count: int) -> tuple[Doubles, Doubles]:
    """Return points in (0, 1) and their weights, which integrate polynomials of degree 2 count - 1 exactly."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2


def restored(found: Attributed, scales: Scales) -> Attributed:
    """Return what was learned in standard deviations in the unit of the labels."""
    if not len(scales.labels.count):
        return found
    unit, mean = deviation(scales.labels), scales.labels.mean
    return Attributed(found.baseline * unit + mean, found.score * unit + mean, found.by_slot * unit[:, None])


def by_package(version: Version, learner: Learner, columns: Columns, pull: Callable[[Keys, int], Pulled]) -> Attribute:
    """Ask the package that has learned the model; its columns that are elements of one vector are a slot."""
    contributions = learner.contributions(read_package(version.stored("package")[0]))
    names = column_names(columns)
    starts = starts_of(columns)

    def attribute(batch: Batch) -> Attributed:
        pulled = pull(batch.keys, batch.size)
        matrix = matrix_of(batch, pulled.weights[TABLE][:, 0], names, pulled.offered)
        found = contributions(matrix).astype(np.float64)
        by_slot = np.add.reduceat(found[:, :-1], starts, axis=1)
        return Attributed(found[:, -1:], found.sum(axis=1, keepdims=True), by_slot[:, None])

    return attribute
