"""DCN v2: layers that multiply the inputs with what they have made of them, beside a network and a linear part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax

from ...platform.operators.base import DenseSpec
from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Layout, Parameters
from ..layers.dense_layers import Layer, branch, he_uniform
from ..layers.stacked import Stacked
from ..losses import loss_of
from .deep import DeepOptions, deep, deep_tower, linear_part, network_inputs, num_inputs

FIRST_CROSS, FIRST_GATE = 101, 151  # the numbers of cross layers, so that their initial values differ from hidden layers'


@dataclass(frozen=True)
class DcnOptions(DeepOptions):
    cross: int = option(2, "cross layers: k of them reach products of k + 1 inputs; 3 for long logs", minimum=1, maximum=16)
    rank: int = option(
        32, "rank of a cross layer's matrix; 0 is the full one, for few slots or long logs", minimum=0, maximum=4096
    )
    gate: bool = option(False, "a cross layer's products are weighed by a sigmoid of its inputs: it passes those that matter")


class Cross(NamedTuple):
    """A cross layer y = x0 * (x W + b) + x, with W of `rank`, as a product of two matrices; of full rank where `rank` is 0.

    With a gate y = x0 * (x W + b) * sigmoid(x V) + x, with V of the same rank.

    Attributes:
        number: of the layer, from 1.
        width: of its inputs, which are as many as its outputs.
    """

    number: int
    width: int
    rank: int
    gate: bool

    def specs(self) -> tuple[DenseSpec, ...]:
        """Return its dense parameters: `kernel`, or `down` and `up`, and `bias`.

        W begins at 0: products of inputs that are large, as continuous slots are, would drown what is to be learned.
        """
        name = f"cross_{self.number}"
        gates = self._matrix(f"{name}.gate_", FIRST_GATE + 2 * self.number) if self.gate else ()
        bias = DenseSpec(f"{name}.bias", (self.width,))
        return *self._matrix(f"{name}.", FIRST_CROSS + 2 * self.number), bias, *gates

    def _matrix(self, prefix: str, number: int) -> tuple[DenseSpec, ...]:
        if not self.rank:
            return (DenseSpec(f"{prefix}kernel", (self.width, self.width)),)
        down = DenseSpec(f"{prefix}down", (self.width, self.rank), he_uniform(number, self.width, self.rank))
        return down, DenseSpec(f"{prefix}up", (self.rank, self.width))

    def apply(self, parameters: Parameters, first: jax.Array, x: jax.Array, stacked: Stacked | None = None) -> jax.Array:
        """Return float32[batch, width] for the network's inputs and the layer's, of that shape too.

        Args:
            stacked: of the first layer, the same inputs as they lie: distinct rows, and what groups have in common, are
                multiplied once.
        """
        own = branch(parameters, f"cross_{self.number}")

        def times(prefix: str) -> jax.Array:
            kernel = own[f"{prefix}{'down' if self.rank else 'kernel'}"]
            y = x @ kernel if stacked is None else stacked.times(kernel)
            return y @ own[f"{prefix}up"] if self.rank else y

        y = times("") + own["bias"]
        return first * (y * jax.nn.sigmoid(times("gate_")) if self.gate else y) + x


def dcn(options: DcnOptions, layout: Layout) -> Algorithm:
    """Learn cross layers and hidden layers side by side over a vector per slot, with a weight per feature.

        x_0 = vectors and dense values;  x_{l+1} = x_0 * (W_l x_l + b_l) + x_l
        with gate = true:                x_{l+1} = x_0 * (W_l x_l + b_l) * sigmoid(V_l x_l) + x_l

    Source: Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale Learning to Rank Systems",
    WWW 2021, equations 1 and 2, and the low rank of section 4.1; the weight per feature is that of Wide & Deep; gates: Wang
    et al., "Towards Deeper, Lighter and Interpretable Cross Network for CTR Prediction", CIKM 2023.
    """
    width = num_inputs(options, layout)
    crosses = tuple(Cross(number, width, min(options.rank, width), options.gate) for number in range(1, options.cross + 1))
    output = Layer("cross_output", FIRST_CROSS, width, layout.outputs, "linear")
    tower = deep_tower(options, layout, "dcn")

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        stacked = network_inputs(parameters, inputs, layout)
        first = x = stacked.whole()
        for cross in crosses:
            x = cross.apply(parameters, first, x, stacked if cross.number == 1 else None)
        deep_part = tower.apply(parameters, stacked, inputs.random)
        return linear_part(parameters, inputs, layout) + output.apply(parameters, x, None) + deep_part

    layers = tuple(spec for cross in crosses for spec in cross.specs())
    outputs = tuple(spec._replace(init=None) for spec in output.specs())
    return deep(options, layout, (*tower.specs, *layers, *outputs), scores, loss_of(options, layout.classes), "dcn")


DCN = Part("dcn", DcnOptions, dcn)
