"""DCN in Equinox: crossing layers of low rank beside hidden layers, and the linear part."""

from __future__ import annotations

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp

import xpsql


class Dcn(eqx.Module):
    """Sees one example; the training maps it over batches."""

    down: list[eqx.nn.Linear]
    up: list[eqx.nn.Linear]
    hidden: list[eqx.nn.Linear]
    out: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(
        self,
        features: xpsql.Features,
        *,
        cross: int = 2,
        rank: int = 32,
        hidden: tuple[int, ...] = (128, 64),
        dropout: float = 0.0,
        key: jax.Array,
    ):
        keys = iter(jax.random.split(key, 2 * cross + len(hidden) + 1))
        width, sizes = features.width, (features.width, *hidden)
        low = min(rank, width)
        self.down = [eqx.nn.Linear(width, low, use_bias=False, key=next(keys)) for _ in range(cross)]
        self.up = [zeros(eqx.nn.Linear(low, width, key=next(keys))) for _ in range(cross)]
        self.hidden = [eqx.nn.Linear(*pair, key=next(keys)) for pair in itertools.pairwise(sizes)]
        self.out = eqx.nn.Linear(width + sizes[-1], len(features.labels), key=next(keys))
        self.dropout = eqx.nn.Dropout(dropout)

    def __call__(self, x, key=None):
        """Return float32[labels]."""
        keys = [None] * len(self.hidden) if key is None else jax.random.split(key, len(self.hidden))
        first = crossed = deep = x.flat
        for down, up in zip(self.down, self.up, strict=True):
            crossed = first * up(down(crossed)) + crossed
        for layer, own in zip(self.hidden, keys, strict=True):
            deep = self.dropout(jax.nn.relu(layer(deep)), key=own)
        return self.out(jnp.concatenate([crossed, deep])) + x.wide


def zeros(layer):
    return jax.tree.map(jnp.zeros_like, layer)
