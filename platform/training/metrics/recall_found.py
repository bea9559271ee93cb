"""Metrics of retrieval while learning: the mean loss, and how often the taken item is among the best of its negatives."""

from __future__ import annotations

from .base import Metric, Sample, ratio, sums


def terms(sample: Sample) -> tuple[float, ...]:
    """Return examples, the sum of losses, and how many are found."""
    return len(sample.labels), sample.predictions[:, 0].sum(), sample.predictions[:, 1].sum()


FOUND = sums("found", 3, terms)
NEEDS = frozenset({"found"})
FOUND_METRICS = (
    Metric("mae", "for models that learn from items taken: the mean loss", NEEDS, FOUND, lambda s: ratio(s[0][1], s[0][0])),
    Metric(
        "recall",
        "for models that learn from items taken: the share of rows whose item is in the best twentieth of a sample, "
        "its negatives in training; for `tdm`, on the rows of VALIDATE, among the `beam` best leaves of a search",
        NEEDS,
        FOUND,
        lambda s: ratio(s[0][2], s[0][0]),
    ),
)
