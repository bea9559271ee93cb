"""Standardisation of continuous slots by what has been seen of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ps.moments import Moments

LIMIT = 8.0


def scale(dense: NDArray[np.float32], moments: Moments, batch_size: int) -> NDArray[np.float32]:
    """Return a batch's dense values as algorithms take them: continuous slots standardised, elements of vectors as they are.

    Values are clipped to 8 standard deviations, so that one outlier cannot throw a weight.

    Args:
        dense: float32[num_dense, examples], NaN where absent; the continuous slots first.
        moments: of the continuous slots.
        batch_size: the padded number of examples.

    Returns:
        float32[batch_size, num_dense], 0 where absent and on padding.
    """
    n, examples = len(moments.count), dense.shape[1]
    scaled = np.zeros((batch_size, len(dense)), np.float32)
    if n:
        deviation = np.sqrt(moments.squares / np.maximum(moments.count, 1))
        deviation = np.where(deviation > 0, deviation, 1.0)
        values = np.clip((dense[:n] - moments.mean[:, None]) / deviation[:, None], -LIMIT, LIMIT)
        scaled[:examples, :n] = np.nan_to_num(values, nan=0.0).T
    if n < len(dense):
        scaled[:examples, n:] = np.nan_to_num(dense[n:], nan=0.0).T
    return scaled


def as_entry(moments: Moments) -> dict[str, list[float]]:
    """Return statistics as a manifest keeps them."""
    return {name: values.tolist() for name, values in moments._asdict().items()}


def from_entry(entry: Mapping[str, Sequence[float]] | Mapping[str, Any]) -> Moments:
    """Return statistics that a manifest keeps."""
    return Moments(*(np.array(entry[name], np.float64) for name in Moments._fields))
