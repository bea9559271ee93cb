"""DCN in Keras 3 on its JAX backend (KERAS_BACKEND=jax): crossing layers beside hidden layers, and the linear part."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import keras


class Dcn:
    """A model of Keras as functions: its trainable variables are the parameters."""

    def __init__(self, features, *, cross: int = 2, rank: int = 32, hidden: tuple[int, ...] = (128, 64)):
        width, labels = features.width, len(features.labels)
        crossed = deep = first = keras.Input((width,))
        for _ in range(cross):
            low = keras.layers.Dense(min(rank, width), use_bias=False)(crossed)
            crossed = first * keras.layers.Dense(width, kernel_initializer="zeros")(low) + crossed
        for units in hidden:
            deep = keras.layers.Dense(units, "relu", kernel_initializer="he_uniform")(deep)
        out = keras.layers.Dense(labels, kernel_initializer="zeros")(crossed) + keras.layers.Dense(labels)(deep)
        self.model = keras.Model(first, out)
        self.drawn = {v.path for v in self.model.trainable_variables if keras.ops.convert_to_numpy(v).any()}

    def init(self, key):
        """Return the parameters by path; kernels are drawn anew by the training's seed, others begin as Keras has them."""
        variables, draw = self.model.trainable_variables, jax.nn.initializers.he_uniform()
        keys = jax.random.split(key, len(variables))
        own = zip(variables, keys, strict=True)
        return {v.path: draw(k, v.shape) if v.path in self.drawn else jax.numpy.zeros(v.shape) for v, k in own}

    def apply(self, parameters, x):
        """Return float32[batch, labels]."""
        values = [parameters[variable.path] for variable in self.model.trainable_variables]
        scores, _ = self.model.stateless_call(values, [], x.flat)
        return scores + x.wide
