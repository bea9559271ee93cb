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
    cross_out: eqx.nn.Linear
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
        keys = iter(jax.random.split(key, cross + len(hidden) + 1))
        width, sizes, zeros = features.width, (features.width, *hidden), jax.nn.initializers.zeros
        low = min(rank, width)
        self.down = [drawn(next(keys), width, low, use_bias=False) for _ in range(cross)]
        self.up = [drawn(key, low, width, zeros) for _ in range(cross)]
        self.hidden = [drawn(next(keys), *pair) for pair in itertools.pairwise(sizes)]
        self.cross_out = drawn(key, width, len(features.labels), zeros)
        self.out = drawn(next(keys), sizes[-1], len(features.labels))
        self.dropout = eqx.nn.Dropout(dropout)

    def __call__(self, x, key=None):
        """Return float32[labels]."""
        keys = [None] * len(self.hidden) if key is None else jax.random.split(key, len(self.hidden))
        first = crossed = deep = x.flat
        for down, up in zip(self.down, self.up, strict=True):
            crossed = first * up(down(crossed)) + crossed
        for layer, own in zip(self.hidden, keys, strict=True):
            deep = self.dropout(jax.nn.relu(layer(deep)), key=own)
        return self.cross_out(crossed) + self.out(deep) + x.wide


def drawn(key, inputs, units, kernel=jax.nn.initializers.he_uniform(in_axis=1, out_axis=0), **more):  # noqa: B008
    layer = eqx.nn.Linear(inputs, units, key=key, **more)
    return jax.tree.map(lambda leaf: kernel(key, leaf.shape) if leaf.ndim == 2 else jnp.zeros_like(leaf), layer)
