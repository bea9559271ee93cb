"""Running statistics of continuous slots, by which they are standardised."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIMIT = 8.0


class Scaler:
    """Mean and variance of each continuous slot over all examples so far; vector elements pass unscaled.

    Values are clipped to 8 standard deviations, so that one outlier cannot throw a weight.

    Source: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.

    Args:
        num_scaled: continuous slots, the first lines of a batch's dense values.
    """

    def __init__(self, num_scaled: int) -> None:
        self.count = np.zeros(num_scaled)
        self.mean = np.zeros(num_scaled)
        self.squares = np.zeros(num_scaled)
        self._lock = threading.Lock()

    def learn(self, dense: NDArray[np.float32]) -> None:
        """Take in a batch: float32[num_dense, examples], NaN where absent."""
        values = dense[: len(self.count)].astype(np.float64)
        present = ~np.isnan(values)
        count = present.sum(axis=1)
        safe = np.maximum(count, 1)
        mean = np.where(present, values, 0).sum(axis=1) / safe
        squares = (np.where(present, values - mean[:, None], 0) ** 2).sum(axis=1)
        with self._lock:
            total = np.maximum(self.count + count, 1)
            delta = mean - self.mean
            self.mean = self.mean + np.where(count > 0, delta * count / total, 0)
            self.squares = self.squares + np.where(count > 0, squares + delta**2 * self.count * count / total, 0)
            self.count = self.count + count

    def scale(self, dense: NDArray[np.float32], batch_size: int) -> NDArray[np.float32]:
        """Return float32[batch_size, num_dense]: standardised, 0 where absent and on padding."""
        n = len(self.count)
        scaled = np.zeros((batch_size, len(dense)), np.float32)
        with self._lock:
            deviation = np.sqrt(self.squares / np.maximum(self.count, 1))
            mean = self.mean
        deviation = np.where(deviation > 0, deviation, 1.0)
        values = np.clip((dense[:n] - mean[:, None]) / deviation[:, None], -LIMIT, LIMIT)
        scaled[: dense.shape[1], :n] = np.nan_to_num(values, nan=0.0).T
        scaled[: dense.shape[1], n:] = np.nan_to_num(dense[n:], nan=0.0).T
        return scaled

    def as_dict(self) -> dict[str, list[float]]:
        """Return the state for a manifest."""
        return {"count": self.count.tolist(), "mean": self.mean.tolist(), "squares": self.squares.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Sequence[float]] | dict[str, Any]) -> Scaler:
        """Return a scaler that goes on from a manifest's state."""
        scaler = cls(len(state["count"]))
        scaler.count, scaler.mean, scaler.squares = (np.array(state[k], np.float64) for k in ("count", "mean", "squares"))
        return scaler
