"""Calibrated predictions in JAX: a curve of a few terms, and biases that come with rows."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ...algorithms.calibration import HIGHEST, LOWEST, Calibrator
from ..training.profiles.calibrators import Calibrators

BIASES = "biases"  # a column of rows


def calibrated(predictions: jax.Array, calibrators: Calibrators, biases: jax.Array | None) -> jax.Array:
    """Return calibrated predictions, float32[batch, labels].

    Args:
        biases: float32[batch, labels]; None without.
    """
    p = jnp.clip(predictions, LOWEST, HIGHEST)
    scores = jnp.log(p) - jnp.log1p(-p)
    found = [curved(scores[:, number : number + 1], one) for number, one in enumerate(calibrators.labels)]
    after = found[0] if len(found) == 1 else jnp.concatenate(found, axis=1)
    return jax.nn.sigmoid(after if biases is None else after + biases)


def curved(scores: jax.Array, calibrator: Calibrator) -> jax.Array:
    """Return g of log odds, as a sum of hinges."""
    curve = calibrator.curve
    between = np.diff(curve.to) / np.diff(curve.at)
    turns: Sequence[float] = np.diff(np.r_[curve.slope, between, curve.slope]).tolist()
    after: jax.Array = curve.to[0] + calibrator.shift + curve.slope * (scores - curve.at[0])
    for at, turn in zip(curve.at.tolist(), turns, strict=True):
        if turn:
            after = after + turn * jnp.maximum(scores - at, 0)
    return after
