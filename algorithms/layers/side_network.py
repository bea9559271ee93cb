"""The network that vectors with ids go through."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..inputs import SideSlots
from .dense_layers import Layer, Parameters

NUMBER = 300  # of the first layer, after the layers of any other network
LAYERS = 20  # of one network, at most
SMALLEST = 1e-12


class SideNetwork:
    """The network over vectors of one kind: float32[k, elements] -> float32[k, dim].

    A vector is divided by the root of the mean of its squares. A value that lacks its vector is zeros and a further input of 1.

    Attributes:
        name: of the vectors.
        dim: of an output.
        specs: the dense parameters.
    """

    def __init__(self, side: SideSlots, number: int, dim: int) -> None:
        widths = [side.elements + 1, *side.hidden, dim]
        self.name, self.dim = side.name, dim
        last = len(widths) - 2
        self._layers = [
            Layer(
                f"vectors.{side.name}.{i + 1}",
                NUMBER + LAYERS * number + i,
                widths[i],
                widths[i + 1],
                "relu" if i < last else "linear",
            )
            for i in range(last + 1)
        ]
        self.specs = tuple(spec for layer in self._layers for spec in layer.specs())

    def apply(self, parameters: Parameters, values: jax.Array) -> jax.Array:
        """Return the network's outputs for `SideVectors.values`; zeros for the first line."""
        line = jax.lax.iota(jnp.int32, values.shape[0])[:, None]
        size = jnp.sqrt((values * values).mean(axis=1, keepdims=True) + SMALLEST)
        x = jnp.concatenate([values / size, (line == 1).astype(values.dtype)], axis=1)
        for layer in self._layers:
            x = layer.apply(parameters, x, None)
        return jnp.where(line == 0, 0, x)
