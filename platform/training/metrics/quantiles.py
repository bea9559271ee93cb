"""Metrics of predictions that are quantiles of the label."""

from __future__ import annotations

import numpy as np

from .base import Metric, Sample, ratio, sums

NAMED = "quantile="


def terms(sample: Sample) -> tuple[float, ...]:
    """Return examples, what labels are above predictions and below them, and how many are not above."""
    above = sample.labels - sample.predictions
    return len(above), float(np.maximum(above, 0).sum()), float(np.maximum(-above, 0).sum()), int(np.count_nonzero(above <= 0))


SIDES = sums("sides", 4, terms)
OF_QUANTILES = frozenset({"labels", "quantile"})


def quantile_of(traits: frozenset[str]) -> float | None:
    """Return which quantile is predicted; None where none is."""
    return next((float(trait.removeprefix(NAMED)) for trait in traits if trait.startswith(NAMED)), None)


def pinball(at: float) -> Metric:
    """Return the mean pinball loss of a quantile."""
    return Metric(
        "pinball",
        "mean pinball loss of the predicted quantile: `at` times what the label is above it, 1 - `at` times what it is below",
        OF_QUANTILES,
        SIDES,
        lambda s: ratio(at * s[0][1] + (1 - at) * s[0][2], s[0][0]),
    )


COVERAGE = Metric(
    "coverage",
    "share of labels that are not above the predicted quantile",
    OF_QUANTILES,
    SIDES,
    lambda s: ratio(s[0][3], s[0][0]),
)
