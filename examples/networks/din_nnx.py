"""din in Flax NNX, by the attention that the built-in algorithm has.

Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx

import xpsql


class Din(nnx.Module):
    """Sees a batch; needs target = (item) and history = (clicked), or more fields of both."""

    def __init__(self, features: xpsql.Features, *, hidden: int = 64, rngs: nnx.Rngs):
        self.attention = xpsql.TargetAttention(features, hidden=(32, 16))
        first = self.attention.init(rngs.params())
        self.weights = nnx.Dict({name: nnx.Param(values) for name, values in first.items()})
        self.hidden = nnx.Linear(features.width + 2 * self.attention.width, hidden, rngs=rngs)
        self.out = nnx.Linear(hidden, len(features.labels), rngs=rngs)

    def __call__(self, x):
        """Return float32[batch, labels]."""
        seen = self.attention(self.weights, x)
        deep = jnp.concatenate([x.flat, seen, x.target * seen], axis=-1)
        return self.out(nnx.relu(self.hidden(deep))) + x.wide
