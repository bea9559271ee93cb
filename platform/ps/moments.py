"""Running statistics of continuous slots: what they are standardised by, kept by the first shard."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class Moments(NamedTuple):
    """How many values, their mean, and the sum of squared differences from it; float64[num_slots] each."""

    count: Doubles  # type: ignore[assignment]  # tuple.count is of no use here
    mean: Doubles
    squares: Doubles


def no_moments(num_slots: int) -> Moments:
    """Return the statistics of no values."""
    return Moments(np.zeros(num_slots), np.zeros(num_slots), np.zeros(num_slots))


def moments_of(values: NDArray[np.float32]) -> Moments:
    """Return the statistics of float32[num_slots, n], NaN where absent; infinities do not count."""
    if not len(values):
        return no_moments(0)
    exact = values.astype(np.float64)
    present = np.isfinite(exact)
    count = present.sum(axis=1).astype(np.float64)
    mean = np.where(present, exact, 0).sum(axis=1) / np.maximum(count, 1)
    squares = (np.where(present, exact - mean[:, None], 0) ** 2).sum(axis=1)
    return Moments(count, mean, squares)


def merged(first: Moments, second: Moments) -> Moments:
    """Return the statistics of the values of both.

    Source: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.
    """
    total = np.maximum(first.count + second.count, 1)
    delta = second.mean - first.mean
    mean = first.mean + delta * second.count / total
    squares = first.squares + second.squares + delta**2 * first.count * second.count / total
    return Moments(first.count + second.count, mean, squares)
