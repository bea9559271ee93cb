"""What a graph answers: predictions, other outputs of the algorithm, and bounds of intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..input.scaling import Scales, deviation
from ..training.profiles.intervals import Width
from .graph_builder import GraphBuilder

Output = tuple[str, int]
"""A name, and the elements of a vector; 0: it is no vector."""


class Results(NamedTuple):
    """The outputs of a graph, in order.

    Attributes:
        predictions: of labels, side by side in the first of the core's outputs; none where that has probabilities of classes.
        others: the core's other outputs, one each.
        bounds: of intervals, two for each label, low and high.
        widths: of intervals.
    """

    predictions: Sequence[Output]
    others: Sequence[Output]
    bounds: Sequence[Output]
    widths: Sequence[Width]

    @property
    def all(self) -> list[Output]:
        """All of them."""
        return [*self.predictions, *self.others, *self.bounds]


def finish(build: GraphBuilder, results: Results, scales: Scales) -> None:
    """Add what makes the graph's outputs of the core's."""
    said = 0
    if results.predictions:
        predictions, said = "core/said_0", 1
        if len(scales.labels.count):
            value = build.add("Mul", build.cast(predictions, "DOUBLE"), build.constant(deviation(scales.labels), np.float64))
            predictions = build.cast(build.add("Add", value, build.constant(scales.labels.mean, np.float64)), "FLOAT")
        for label, (name, _) in enumerate(results.predictions):
            build.add("Gather", predictions, build.constant(label), output=name, axis=1)
    for number, (name, _) in enumerate(results.others, said):
        build.add("Identity", f"core/said_{number}", output=name)
    names = iter([name for name, _ in results.bounds])
    for (prediction, _), width in zip(results.predictions, results.widths, strict=False):
        middle = build.cast(prediction, "DOUBLE")
        low = build.add("Sub", middle, build.constant(width.below, np.float64))
        if width.least > -math.inf:
            low = build.add("Max", low, build.constant(width.least, np.float64))
        for bound in (low, build.add("Add", middle, build.constant(width.above, np.float64))):
            build.cast(bound, "FLOAT", next(names))
