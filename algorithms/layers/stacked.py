"""The inputs of a network: the vectors of an example's slots, side by side, and other numbers after them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .lookups import gathered, projected


class Stacked(NamedTuple):
    """Inputs that need not be laid side by side for the first layer.

    Attributes:
        rows: float32[n, dim].
        row_index: int32[lines, batch], the rows of each example.
        more: float32[batch, k], what stands after them.
    """

    rows: jax.Array
    row_index: jax.Array
    more: jax.Array

    @property
    def width(self) -> int:
        """lines * dim"""
        return len(self.row_index) * self.rows.shape[1]

    def whole(self) -> jax.Array:
        """Return float32[batch, width + k]."""
        return jnp.concatenate([gathered(self.rows, self.row_index).reshape(len(self.more), self.width), self.more], axis=1)

    def times(self, kernel: jax.Array) -> jax.Array:
        """Return the product with float32[width + k, units], float32[batch, units]."""
        return projected(self.rows, self.row_index, kernel[: self.width]) + self.more @ kernel[self.width :]
