"""DCN in Flax NNX: crossing layers beside hidden layers, and the linear part."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
from flax import nnx

import xpsql


class Dcn(nnx.Module):
    """Sees a batch."""

    def __init__(
        self,
        features: xpsql.Features,
        *,
        cross: int = 2,
        hidden: tuple[int, ...] = (128, 64),
        dropout: float = 0.0,
        rngs: nnx.Rngs,
    ):
        width, sizes = features.width, (features.width, *hidden)
        self.cross = nnx.List([nnx.Linear(width, width, rngs=rngs) for _ in range(cross)])
        self.hidden = nnx.List([nnx.Linear(*pair, rngs=rngs) for pair in itertools.pairwise(sizes)])
        self.out = nnx.Linear(width + sizes[-1], len(features.labels), rngs=rngs)
        self.dropout = nnx.Dropout(dropout, rngs=rngs)

    def __call__(self, x):
        """Return float32[batch, labels]."""
        crossed = deep = x.flat
        for layer in self.cross:
            crossed = x.flat * layer(crossed) + crossed
        for layer in self.hidden:
            deep = self.dropout(nnx.relu(layer(deep)))
        return self.out(jnp.concatenate([crossed, deep], axis=-1)) + x.wide
