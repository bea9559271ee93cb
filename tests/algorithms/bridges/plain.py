"""A network of plain functions: a hidden layer beside the linear part."""

import jax
import jax.numpy as jnp


def init(key, features, units: int = 8):
    width, outputs = features.width, len(features.labels)
    return {
        "hidden": jax.random.normal(key, (width, units)) * 0.1,
        "out": jax.random.normal(key, (units, outputs)) * 0.1,
    }


def apply(parameters, x):
    return jnp.tanh(x.flat @ parameters["hidden"]) @ parameters["out"] + x.wide
