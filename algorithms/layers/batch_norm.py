"""Batch normalisation of hidden layers: by the batch while they learn, by moving averages of batches where they score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from ...platform.operators.base import DenseSpec
from .activations import Parameters, moments
from .running import LEARNED, MOMENTUM, follow

if TYPE_CHECKING:
    import optax

EPSILON = 1e-5


def norm_specs(layer: str, shape: tuple[int, ...]) -> tuple[DenseSpec, ...]:
    """Return what a layer keeps to normalise what it gives: a gain per unit, and the averages of batches."""

    def ones(seed: int) -> jax.Array:
        return jnp.ones(shape)

    return (
        DenseSpec(f"{layer}.norm.gain", shape, ones),
        DenseSpec(f"{layer}.norm.mean", shape, None, debiased),
        DenseSpec(f"{layer}.norm.variance", shape, ones, debiased),
    )


def debiased() -> optax.GradientTransformation:
    """Return what makes a moving average of a parameter whose gradient is its distance from a batch: the first batches weigh
    alike, so that a short training has an average of its own batches and nothing of where it began.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, section 3.
    """
    import optax  # costs 0.2 s, which algorithms without layers need not pay

    return optax.sgd(lambda count: (1 - MOMENTUM) / (1 - MOMENTUM ** (count + 1.0)))


def normalised(parameters: Parameters, x: jax.Array) -> jax.Array:
    """Return x float32[batch, ..., units] less its mean, over its standard deviation, times a gain.

    In an update these are the batch's, without padding, and averages follow them (`running.follow`); elsewhere the averages.
    What several workers add up may leave a variance below 0 for a while, which then is 0.

    Source: Ioffe and Szegedy, "Batch Normalization", ICML 2015, algorithms 1 and 2; the shift is the layer's bias.
    """
    learned = LEARNED.get()
    statistics = parameters if learned is None else moments(x, learned.examples)
    if learned is not None:
        follow({name: parameters[name] for name in statistics}, lambda _: statistics)
    scale = parameters["gain"] * jax.lax.rsqrt(jnp.maximum(statistics["variance"], 0) + EPSILON)
    return (x - statistics["mean"]) * scale
