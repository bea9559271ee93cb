"""Networks of one shape side by side, as one: experts, gates, and the towers of several labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...platform.operators.base import DenseSpec
from .activations import ACTIVATIONS
from .affine import RECTIFIED, affine, side_by_side
from .batch_norm import norm_specs, normalised
from .dense_layers import Parameters, activated, activation_specs, branch, dropped, he_uniform
from .stacked import Stacked


class Parallel(NamedTuple):
    """`count` networks with hidden layers and, where `outputs` is not 0, a linear layer above them.

    Attributes:
        name: its parameters' names begin with it and a dot.
        number: of its first layer, for its random numbers; its layers have those after it.
        count: of networks.
        inputs: width of what goes into each.
        hidden: units of each hidden layer.
        activations: of each hidden layer.
        outputs: width of what comes out of each; 0: its last hidden layer.
        dropout: the share of hidden units that a training step leaves out.
        norm: hidden layers are normalised by batches.
    """

    name: str
    number: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here
    inputs: int
    hidden: tuple[int, ...]
    activations: tuple[str, ...]
    outputs: int = 0
    dropout: float = 0.0
    norm: bool = False

    @property
    def units(self) -> int:
        """Width of what comes out of each."""
        return self.outputs or self.hidden[-1]

    @property
    def _layers(self) -> list[tuple[str, int, int, int, str]]:
        """The name, number, inputs, units and activation of each layer."""
        widths = [self.inputs, *self.hidden, *([self.outputs] if self.outputs else [])]
        activations = [*self.activations, *(["linear"] if self.outputs else [])]
        pairs = zip(itertools.pairwise(widths), activations, strict=True)
        return [(f"{self.name}.{i}", self.number + i, *pair, activation) for i, (pair, activation) in enumerate(pairs, 1)]

    def specs(self) -> tuple[DenseSpec, ...]:
        """Return its dense parameters; the kernel of the first layer is float32[inputs, count * units], those above it are
        float32[count, inputs, units]."""
        specs = []
        for i, (name, number, inputs, units, activation) in enumerate(self._layers):
            side_by_side = he_uniform(number, inputs, self.count * units)
            if i:
                kernel = DenseSpec(f"{name}.kernel", (self.count, inputs, units), stacked(side_by_side, self.count))
            else:
                kernel = DenseSpec(f"{name}.kernel", (inputs, self.count * units), side_by_side)
            learned = {key: repeated(values, self.count) for key, values in ACTIVATIONS[activation].init(units).items()}
            specs += [kernel, DenseSpec(f"{name}.bias", (self.count, units))]
            specs += norm_specs(name, (self.count, units)) if self._normalises(i) else ()
            specs += activation_specs(name, activation, learned)
        return tuple(specs)

    def apply(self, parameters: Parameters, x: jax.Array | Stacked, random: jax.Array | None) -> jax.Array:
        """Return float32[batch, count, units].

        Args:
            x: float32[batch, inputs], which goes into all, or float32[batch, count, inputs].
            random: as in Inputs.
        """
        for i, (name, number, inputs, units, activation) in enumerate(self._layers):
            own, norm = branch(parameters, name), self._normalises(i)
            rectified = activation == RECTIFIED and not isinstance(x, Stacked) and not norm
            x = self._sums(rectified, x, own["kernel"], jnp.zeros_like(own["bias"]) if norm else own["bias"], inputs, units)
            if norm:
                x = normalised(branch(own, "norm"), x) + own["bias"]
            if not rectified:
                x = activated(activation, own, x)
            if self.dropout and random is not None and activation != "linear":
                x = dropped(x, self.dropout, random, number)
        assert isinstance(x, jax.Array)
        return x

    def _normalises(self, layer: int) -> bool:
        """Return whether a layer, from 0, is normalised."""
        return self.norm and layer < len(self.hidden)

    def _sums(
        self, rectified: bool, x: jax.Array | Stacked, kernel: jax.Array, bias: jax.Array, inputs: int, units: int
    ) -> jax.Array:
        if isinstance(x, Stacked):
            return x.times(kernel).reshape(-1, self.count, units) + bias
        if x.ndim == 2:
            return affine(x, kernel, bias.reshape(-1), rectified).reshape(-1, self.count, units)
        if kernel.ndim == 2:
            kernel = kernel.reshape(inputs, self.count, units).transpose(1, 0, 2)
        return side_by_side(rectified, x, kernel, bias)


def stacked(init: Callable[[int], jax.Array], count: int) -> Callable[[int], jax.Array]:
    """Return what makes float32[count, inputs, units] of what makes these side by side, float32[inputs, count * units]."""

    def apart(seed: int) -> jax.Array:
        whole = init(seed)
        return whole.reshape(len(whole), count, -1).transpose(1, 0, 2)

    return apart


def repeated(values: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    return np.broadcast_to(values, (count, *values.shape))
