"""DCN in Flax NNX: crossing layers of low rank beside hidden layers, and the linear part."""

from __future__ import annotations

import itertools

from flax import nnx

import xpsql


class Dcn(nnx.Module):
    """Sees a batch."""

    def __init__(
        self,
        features: xpsql.Features,
        *,
        cross: int = 2,
        rank: int = 32,
        hidden: tuple[int, ...] = (128, 64),
        dropout: float = 0.0,
        rngs: nnx.Rngs,
    ):
        width, sizes = features.width, (features.width, *hidden)
        zeros, he_uniform = nnx.initializers.zeros, nnx.initializers.he_uniform()
        low, few = min(rank, width), {"kernel_init": he_uniform, "use_bias": False}
        self.down = nnx.List([nnx.Linear(width, low, **few, rngs=rngs) for _ in range(cross)])
        self.up = nnx.List([nnx.Linear(low, width, kernel_init=zeros, rngs=rngs) for _ in range(cross)])
        self.hidden = nnx.List([nnx.Linear(*pair, kernel_init=he_uniform, rngs=rngs) for pair in itertools.pairwise(sizes)])
        self.cross_out = nnx.Linear(width, len(features.labels), kernel_init=zeros, rngs=rngs)
        self.out = nnx.Linear(sizes[-1], len(features.labels), kernel_init=he_uniform, rngs=rngs)
        self.dropout = nnx.Dropout(dropout, rngs=rngs)

    def __call__(self, x):
        """Return float32[batch, labels]."""
        first = crossed = deep = x.flat
        for down, up in zip(self.down, self.up, strict=True):
            crossed = first * up(down(crossed)) + crossed
        for layer in self.hidden:
            deep = self.dropout(nnx.relu(layer(deep)))
        return self.cross_out(crossed) + self.out(deep) + x.wide
