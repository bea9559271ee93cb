"""Dense layers: what they keep, and how they are applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...platform.operators.base import DenseSpec, mixed
from .activations import ACTIVATIONS, Start
from .affine import RECTIFIED, affine
from .batch_norm import norm_specs, normalised
from .running import MOMENTUM, follow, running
from .stacked import Stacked

Parameters = Mapping[str, jax.Array]

EPSILON = 1e-5


def branch(parameters: Parameters, name: str) -> Parameters:
    """Return the parameters below a name: dotted names are the paths of a tree, which shards and versions keep flat."""
    prefix = f"{name}."
    return {path.removeprefix(prefix): values for path, values in parameters.items() if path.startswith(prefix)}


class Layer(NamedTuple):
    """A layer y = activation(x W + b), with x added where `residual` is set and the widths agree.

    Attributes:
        name: its parameters' names begin with it and a dot.
        number: of the layer in its network, for its random numbers.
        inputs, units: widths.
        activation: a name in ACTIVATIONS.
        dropout: the share of units that a training step leaves out.
        norm: x W is normalised by batches before the bias is added.
    """

    name: str
    number: int
    inputs: int
    units: int
    activation: str
    residual: bool = False
    dropout: float = 0.0
    norm: bool = False

    def specs(self) -> tuple[DenseSpec, ...]:
        """Return its dense parameters: `kernel`, `bias` and what its normalisation and its activation keep."""
        learned = ACTIVATIONS[self.activation].init(self.units)
        own = {
            "kernel": ((self.inputs, self.units), he_uniform(self.number, self.inputs, self.units)),
            "bias": ((self.units,), None),
        }
        specs = (DenseSpec(f"{self.name}.{name}", shape, init) for name, (shape, init) in own.items())
        norm = norm_specs(self.name, (self.units,)) if self.norm else ()
        return *specs, *norm, *activation_specs(self.name, self.activation, learned)

    def apply(
        self, parameters: Parameters, x: jax.Array | Stacked, random: jax.Array | None, mask: jax.Array | None = None
    ) -> jax.Array:
        """Return float32[batch, ..., units] for x float32[batch, ..., inputs]; `random` as in Inputs, `mask` of activated."""
        own = branch(parameters, self.name)
        kernel, bias = own["kernel"], own["bias"]
        rectified = self.activation == RECTIFIED and not isinstance(x, Stacked) and not self.norm
        if self.norm:
            y = x.times(kernel) if isinstance(x, Stacked) else affine(x, kernel, jnp.zeros_like(bias))
            y = normalised(branch(own, "norm"), y) + bias
        else:
            y = x.times(kernel) + bias if isinstance(x, Stacked) else affine(x, kernel, bias, rectified)
        if not rectified:
            y = activated(self.activation, own, y, mask)
        if self.dropout and random is not None:
            y = dropped(y, self.dropout, random, self.number)
        if not self.residual or self.inputs != self.units:
            return y
        return y + (x.whole() if isinstance(x, Stacked) else x)


def activation_specs(layer: str, activation: str, values: Start) -> tuple[DenseSpec, ...]:
    """Return the dense parameters of a layer's activation, whose first values are given; moving averages follow batches.

    JAX does not run here: by these parameters it is found how many threads it shall have.
    """
    chosen = ACTIVATIONS[activation]
    averages = jax.eval_shape(chosen.follows, np.zeros((1, 1), np.float32), np.ones(1, bool)) if chosen.follows else {}
    return tuple(
        running(f"{layer}.{name}", first.shape, MOMENTUM, constant(first))
        if name in averages
        else DenseSpec(f"{layer}.{name}", first.shape, constant(first))
        for name, first in values.items()
    )


def activated(activation: str, parameters: Parameters, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Return an activation of x float32[batch, ..., units], whose moving averages follow x in training.

    Args:
        mask: bool[batch, ...], what of x is there, where that is more than the example.
    """
    chosen = ACTIVATIONS[activation]
    if chosen.follows:
        follow(parameters, partial(chosen.follows, x), mask)
    return chosen.apply(parameters, x)


def he_uniform(number: int, inputs: int, units: int) -> Callable[[int], jax.Array]:
    """Return an initializer that keeps the variance of what goes through a rectified layer.

    Source: He et al., "Delving Deep into Rectifiers", ICCV 2015.
    """

    def init(seed: int) -> jax.Array:
        limit = (6 / max(inputs, 1)) ** 0.5
        key = jax.random.fold_in(jax.random.key(seed), number)
        return jax.random.uniform(key, (inputs, units), minval=-limit, maxval=limit)

    return init


def constant(values: NDArray[np.float32]) -> Callable[[int], jax.Array]:
    return lambda seed: jnp.asarray(values)


def dropped(x: jax.Array, share: float, random: jax.Array, number: int) -> jax.Array:
    """Return x with a share of its elements 0 and the others scaled up, a function of `random` and the layer's number.

    Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 2014.
    """
    element = jax.lax.iota(jnp.uint32, x.size).reshape(x.shape)
    bits = mixed(mixed(element ^ random[0]) + random[1] + jnp.uint32(number))
    return jnp.where(bits >= jnp.uint32(share * 2**32), x / (1 - share), 0)


def layer_norm(x: jax.Array) -> jax.Array:
    """Return each example's inputs, less their mean, over their standard deviation.

    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016, without gain and bias, which the next layer has.
    """
    centred = x - x.mean(axis=1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(axis=1, keepdims=True) + EPSILON)
