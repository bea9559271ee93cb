"""DCN as plain functions of JAX: crossing layers beside hidden layers, and the linear part."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp


def init(key, features, *, cross: int = 2, hidden: tuple[int, ...] = (128, 64)):
    """Return the parameters: a tree of float32 arrays."""
    keys = iter(jax.random.split(key, 2 * cross + len(hidden) + 1))
    sizes = (features.width, *hidden)
    outputs = len(features.labels)
    return {
        "cross": [layer(next(keys), features.width, features.width) for _ in range(cross)],
        "hidden": [layer(next(keys), *pair) for pair in itertools.pairwise(sizes)],
        "out": layer(next(keys), features.width + sizes[-1], outputs),
    }


def layer(key, inputs: int, units: int):
    """Return a kernel, uniform as Glorot has it, and a bias of zeros."""
    return {
        "kernel": jax.nn.initializers.glorot_uniform()(key, (inputs, units), jnp.float32),
        "bias": jnp.zeros(units, jnp.float32),
    }


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def apply(parameters, x):
    """Return float32[batch, labels]."""
    first = crossed = deep = x.flat
    for own in parameters["cross"]:
        crossed = first * dense(own, crossed) + crossed
    for own in parameters["hidden"]:
        deep = jax.nn.relu(dense(own, deep))
    return dense(parameters["out"], jnp.concatenate([crossed, deep], axis=-1)) + x.wide
