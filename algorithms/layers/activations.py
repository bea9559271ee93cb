"""Activation functions of dense layers, chosen by name. Some learn parameters, which belong to the layer that uses them.

    chosen = ACTIVATIONS[options.activation]
    parameters = chosen.init(dim)                 # {} where nothing is learned; else the layer's to keep and train
    outputs = chosen.apply(parameters, inputs)    # float32[..., dim] of the same shape

Each is a pure function of one example's units: what a batch holds beside it, padding included, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Parameters = Mapping[str, jax.Array]
Start = Mapping[str, NDArray[np.float32]]  # in NumPy: layers are described before JAX runs

LEAK = 0.01
PRELU_START = 0.25
SMALLEST_VARIANCE = 1e-6


class Activation(NamedTuple):
    """An activation function.

    Attributes:
        apply: (parameters, float32[..., dim]) -> float32[..., dim], element by element.
        init: dim -> the parameters that it keeps, float32[dim] each, by name.
        follows: (float32[..., dim], mask of its first axes) -> the parameters that are moving averages over batches, and this
            batch's statistics; no gradient reaches them. None: there are none.
    """

    apply: Callable[[Parameters, jax.Array], jax.Array]
    init: Callable[[int], Start] = lambda dim: {}
    follows: Callable[[jax.Array, jax.Array], Parameters] | None = None


def fixed(function: Callable[[jax.Array], jax.Array]) -> Activation:
    """Return an activation that learns nothing."""
    return Activation(lambda parameters, x: function(x))


def leaky_relu(x: jax.Array) -> jax.Array:
    """Return x where it is positive, else 0.01 x.

    Source: Maas, Hannun and Ng, "Rectifier Nonlinearities Improve Neural Network Acoustic Models", ICML 2013.
    """
    return jnp.where(x > 0, x, LEAK * x)


def gelu(x: jax.Array) -> jax.Array:
    """Return x P(X <= x) for a standard normal X, exactly.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)", 2016.
    """
    return jax.nn.gelu(x, approximate=False)


def zeros(dim: int) -> NDArray[np.float32]:
    return np.zeros(dim, np.float32)


def prelu_start(dim: int) -> Start:
    return {"slope": np.full(dim, PRELU_START, np.float32)}


def prelu(parameters: Parameters, x: jax.Array) -> jax.Array:
    """Return x where it is positive, else slope x, with a slope learned per unit.

    Source: He et al., "Delving Deep into Rectifiers", ICCV 2015.
    """
    return jnp.where(x > 0, x, parameters["slope"] * x)


def dice_start(dim: int) -> Start:
    return {"slope": zeros(dim), "mean": zeros(dim), "steepness": 1 + zeros(dim)}


def dice(parameters: Parameters, x: jax.Array) -> jax.Array:
    """Return p x + (1 - p) slope x with p = sigmoid(steepness (x - mean)): a rectifier that bends where its data is.

    The paper takes mean and steepness, 1 / standard deviation, from each batch, and scores with moving averages. Here they are
    parameters like the slope, learned per unit from 0 and 1 on: so training and scoring are one function, and a prediction
    does not depend on the examples that share its batch. `running_dice` has moving averages in both.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018, section 5.3, equation 9.
    """
    share = jax.nn.sigmoid(parameters["steepness"] * (x - parameters["mean"]))
    return (share + (1 - share) * parameters["slope"]) * x


def running_dice_start(dim: int) -> Start:
    return {"slope": zeros(dim), "mean": zeros(dim), "variance": 1 + zeros(dim)}


def running_dice(parameters: Parameters, x: jax.Array) -> jax.Array:
    """Return p x + (1 - p) slope x with p = sigmoid((x - mean) / sqrt(variance)), whose statistics are moving averages.

    The paper takes the batch's statistics in training. Here training uses the averages before the batch, as predictions do.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018, section 5.3, equation 9.
    """
    mean, variance = (jax.lax.stop_gradient(parameters[name]) for name in ("mean", "variance"))
    share = jax.nn.sigmoid((x - mean) * jax.lax.rsqrt(variance + SMALLEST_VARIANCE))
    return (share + (1 - share) * parameters["slope"]) * x


def moments(x: jax.Array, mask: jax.Array) -> Parameters:
    """Return the mean and the variance of each unit where the mask of the first axes is set."""
    axes = tuple(range(mask.ndim))
    chosen = mask.reshape(*mask.shape, *[1] * (x.ndim - mask.ndim))
    number = jnp.maximum(mask.sum(), 1)
    mean = jnp.where(chosen, x, 0).sum(axis=axes) / number
    return {"mean": mean, "variance": jnp.where(chosen, (x - mean) ** 2, 0).sum(axis=axes) / number}


# Sources: elu: Clevert et al., ICLR 2016. selu: Klambauer et al., NeurIPS 2017. swish, or silu: Ramachandran et al., "Searching
# for Activation Functions", 2017. mish: Misra, BMVC 2020. softplus and relu: Glorot et al., AISTATS 2011.
ACTIVATIONS: Mapping[str, Activation] = {
    "relu": fixed(jax.nn.relu),
    "leaky_relu": fixed(leaky_relu),
    "prelu": Activation(prelu, prelu_start),
    "dice": Activation(dice, dice_start),
    "running_dice": Activation(running_dice, running_dice_start, moments),
    "elu": fixed(jax.nn.elu),
    "selu": fixed(jax.nn.selu),
    "gelu": fixed(gelu),
    "swish": fixed(jax.nn.silu),
    "silu": fixed(jax.nn.silu),
    "mish": fixed(jax.nn.mish),
    "softplus": fixed(jax.nn.softplus),
    "sigmoid": fixed(jax.nn.sigmoid),
    "tanh": fixed(jnp.tanh),
    "linear": fixed(lambda x: x),
}
