"""DCN as plain functions of JAX: crossing layers beside hidden layers, and the linear part."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp


def init(key, features, *, cross: int = 2, hidden: tuple[int, ...] = (128, 64)):
    """Return the parameters: a tree of float32 arrays. What crosses begins at zeros."""
    keys = jax.random.split(key, len(hidden) + 1)
    width, sizes, zeros = features.width, (features.width, *hidden), jax.nn.initializers.zeros
    return {
        "cross": [layer(key, width, width, zeros) for _ in range(cross)],
        "hidden": [layer(own, *pair) for own, pair in zip(keys[:-1], itertools.pairwise(sizes), strict=True)],
        "cross_out": layer(key, width, len(features.labels), zeros),
        "out": layer(keys[-1], sizes[-1], len(features.labels)),
    }


def layer(key, inputs: int, units: int, kernel=jax.nn.initializers.he_uniform()):  # noqa: B008
    return {"kernel": kernel(key, (inputs, units), jnp.float32), "bias": jnp.zeros(units, jnp.float32)}


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def apply(parameters, x):
    """Return float32[batch, labels]."""
    first = crossed = deep = x.flat
    for own in parameters["cross"]:
        crossed = first * dense(own, crossed) + crossed
    for own in parameters["hidden"]:
        deep = jax.nn.relu(dense(own, deep))
    return dense(parameters["cross_out"], crossed) + dense(parameters["out"], deep) + x.wide
