"""DCN as plain functions of JAX: crossing layers of low rank beside hidden layers, and the linear part."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp


def init(key, features, *, cross: int = 2, rank: int = 32, hidden: tuple[int, ...] = (128, 64)):
    """Return the parameters: a tree of float32 arrays. What crosses begins at zeros."""
    keys = iter(jax.random.split(key, cross + len(hidden) + 1))
    width, sizes, zeros = features.width, (features.width, *hidden), jax.nn.initializers.zeros
    low = min(rank, width)
    return {
        "down": [layer(next(keys), width, low) for _ in range(cross)],
        "up": [layer(key, low, width, zeros) for _ in range(cross)],
        "hidden": [layer(next(keys), *pair) for pair in itertools.pairwise(sizes)],
        "cross_out": layer(key, width, len(features.labels), zeros),
        "out": layer(next(keys), sizes[-1], len(features.labels)),
    }


def layer(key, inputs: int, units: int, kernel=jax.nn.initializers.he_uniform()):  # noqa: B008
    return {"kernel": kernel(key, (inputs, units), jnp.float32), "bias": jnp.zeros(units, jnp.float32)}


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def apply(parameters, x):
    """Return float32[batch, labels]."""
    first = crossed = deep = x.flat
    for down, up in zip(parameters["down"], parameters["up"], strict=True):
        crossed = first * dense(up, dense(down, crossed)) + crossed
    for own in parameters["hidden"]:
        deep = jax.nn.relu(dense(own, deep))
    return dense(parameters["cross_out"], crossed) + dense(parameters["out"], deep) + x.wide
