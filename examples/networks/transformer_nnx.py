"""A transformer over the history and the target, in Flax NNX: what a user had, in order, and what is offered now, come last.

Source: Chen et al., "Behavior Sequence Transformer for E-commerce Recommendation in Alibaba", DLP-KDD 2019.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx

import xpsql


class Transformer(nnx.Module):
    """Sees a batch; needs target = (item) and history = (clicked), whose vectors have the same `dim`."""

    def __init__(self, features: xpsql.Features, *, heads: int = 2, hidden: int = 64, most: int = 128, rngs: nnx.Rngs):
        dim, draw = features.dim, nnx.initializers.normal(0.01)
        self.places = nnx.Param(draw(rngs.params(), (most + 1, dim)))  # how long ago: 0 for the target
        self.attention = nnx.MultiHeadAttention(heads, dim, decode=False, rngs=rngs)
        self.norms = nnx.List([nnx.LayerNorm(dim, rngs=rngs) for _ in range(2)])
        self.inner, self.outer = nnx.Linear(dim, 4 * dim, rngs=rngs), nnx.Linear(4 * dim, dim, rngs=rngs)
        self.hidden = nnx.Linear(features.width + 2 * dim, hidden, rngs=rngs)
        self.out = nnx.Linear(hidden, len(features.labels), rngs=rngs)
        self.history, self.target = features.histories[0], features.target[0]

    def __call__(self, x):
        """Return float32[batch, labels]."""
        vectors, mask = x.history[self.history]
        ago = mask.sum(axis=1, keepdims=True) - jnp.arange(mask.shape[1])  # 1 for the newest element
        target = x[self.target] + self.places[0]
        sequence = jnp.concatenate([vectors + self.places[jnp.clip(ago, 0, len(self.places) - 1)], target[:, None]], axis=1)
        there = jnp.concatenate([mask, jnp.ones((len(mask), 1), bool)], axis=1)
        seen = self.attention(self.norms[0](sequence), mask=there[:, None, None, :])
        sequence = sequence + seen
        sequence = sequence + self.outer(nnx.relu(self.inner(self.norms[1](sequence))))
        pooled = (sequence * there[..., None]).sum(axis=1) / there.sum(axis=1, keepdims=True)
        deep = jnp.concatenate([x.flat, sequence[:, -1], pooled], axis=-1)
        return self.out(nnx.relu(self.hidden(deep))) + x.wide
