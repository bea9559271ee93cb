"""Metrics within groups of examples, such as the examples of one user or session.

The state is float64[2], sums over finished groups, and three arrays for each sample of open groups: groups, labels and
predictions. Packing finishes all groups: a group that continues afterwards counts as another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .base import Metric, Sample, State, Statistic, check_doubles, ratio


def add(state: State, sample: Sample) -> State:
    """Take in a sample."""
    return *state, sample.groups, sample.labels, sample.predictions


def merge(one: State, other: State) -> State:
    """Merge two states."""
    return one[0] + other[0], *one[1:], *other[1:]


def packed(state: State) -> State:
    """Return a state whose groups are all finished."""
    if len(state) == 1:
        return state
    groups, labels, predictions = (np.concatenate(state[first::3]) for first in (1, 2, 3))
    return (state[0] + gauc_sums(groups, labels, predictions),)


def gauc_sums(
    groups: NDArray[np.int64], labels: NDArray[np.floating], predictions: NDArray[np.floating]
) -> tuple[float, float]:
    """Return the sum of exact AUC x examples over groups, and their examples; groups of one label do not count.

    Source: Zhu et al., Optimized Cost per Click in Taobao Display Advertising, KDD 2017, equation 5.

    Args:
        groups: int64[n], any numbering.
        labels, predictions: float[n].
    """
    if not len(groups):
        return 0.0, 0.0
    order = np.lexsort((predictions, groups))
    groups, positive, predictions = groups[order], labels[order] > 0, predictions[order]
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    group = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(groups)]))
    tie = np.cumsum(np.r_[True, (groups[1:] != groups[:-1]) | (predictions[1:] != predictions[:-1])]) - 1
    position = np.arange(len(groups)) - starts[group] + 1.0
    rank = (np.bincount(tie, position) / np.bincount(tie))[tie]
    positives = np.bincount(group, positive)
    size = np.bincount(group)
    pairs = positives * (size - positives)
    wins = np.bincount(group, rank * positive) - positives * (positives + 1) / 2
    both = pairs > 0
    return float((wins[both] / pairs[both] * size[both]).sum()), float(size[both].sum())


GROUPS = Statistic("groups", lambda: (np.zeros(2),), add, merge, lambda state: check_doubles("groups", state, 2), packed)
GAUC = Metric(
    "gauc",
    "mean AUC within groups, weighted by their examples; with GROUP",
    frozenset({"classes", "groups"}),
    GROUPS,
    lambda s: ratio(*packed(s)[0]),
)
