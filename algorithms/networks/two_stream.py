"""FinalMLP: two networks side by side, each of which sees its own selection of the inputs, joined by the products of both."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject
from ...platform.operators.base import DenseSpec
from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Layout, Parameters
from ..layers.dense_layers import Layer, he_uniform
from ..layers.pooling import slot_vectors
from ..losses import loss_of
from ..positions import places
from .booster import LAYERS
from .deep import DeepOptions, deep, linear_part, network_inputs, num_inputs
from .tower import BATCH_NORM, activations_of, check_hidden

FIRST_STREAM, STREAMS = 501, ("first", "second")
"""The number of the first layer, so that its initial values differ from other layers', and a stream has fifty."""
SUBJECT = Subject("USING", "two_stream")


@dataclass(frozen=True)
class TwoStreamOptions(DeepOptions):
    normalise: str = option(
        BATCH_NORM,
        "batch_norm: hidden layers are normalised by each batch while they learn, by moving averages where they score",
        choices=("none", BATCH_NORM),
        needs=LAYERS,
    )
    first: tuple = option(  # type: ignore[type-arg]
        (), "slots that choose what the first stream sees, such as those of the user; () for the same choice for all"
    )
    second: tuple = option(  # type: ignore[type-arg]
        (), "slots that choose what the second stream sees, such as those of the item; () for the same choice for all"
    )
    second_hidden: tuple = option((), "units of each hidden layer of the second stream; () for those of the first")  # type: ignore[type-arg]
    gate_hidden: int = option(
        64,
        "units of the layer between those slots and their choice",
        minimum=1,
        maximum=4096,
        needs=(when("first"), when("second")),
    )
    heads: int = option(
        4, "parts of what the streams give, each multiplied with its counterpart; more for wide layers", minimum=1, maximum=256
    )


def two_stream(options: TwoStreamOptions, layout: Layout) -> Algorithm:
    """Learn two networks over a vector per slot, and the products of what they give, with a weight per feature.

        stream:  o = network(x * 2 sigmoid(choice of its slots)), x the slots' vectors and the numbers of the example
        score = linear part + w1 o1 + w2 o2 + sum over heads of o1 W o2

    The choice is made by a small network of the vectors of the slots that `first` and `second` name, so that each stream looks
    at the example from a side of its own; without slots it is learned, the same for all examples.

    Source: Mao et al., "FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction", AAAI 2023.

    Raises:
        OptionError: no hidden layers, units that heads do not divide, or what is named is no slot of features.
    """
    streams = [GatedStream(options, layout, number) for number in range(len(STREAMS))]
    joint = Fusion(options, layout, [stream.units for stream in streams])

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        x = network_inputs(parameters, inputs, layout).whole()
        one, two = (stream.apply(parameters, inputs, x) for stream in streams)
        return linear_part(parameters, inputs, layout) + joint.apply(parameters, one, two)

    specs = (*streams[0].specs, *streams[1].specs, *joint.specs)
    return deep(options, layout, specs, scores, loss_of(options, layout.classes), "two_stream")


class GatedStream:
    """A network over the inputs that it chooses.

    Args:
        number: 0 or 1.

    Attributes:
        units: of its last layer.
        specs: the dense parameters.
    """

    def __init__(self, options: TwoStreamOptions, layout: Layout, number: int) -> None:
        named, hidden = (options.first, options.second)[number], options.hidden
        if number and options.second_hidden:
            hidden = options.second_hidden
        which = "second_hidden" if number and options.second_hidden else "hidden"
        check_hidden(hidden, which, "two_stream")
        subject = SUBJECT._replace(option=which)
        if not hidden:
            raise OptionError(f"{subject} expects one layer or more, like (128, 64).", subject=subject)
        if hidden[-1] % options.heads:
            raise OptionError(
                f"{subject} ends with {hidden[-1]} units, which heads = {options.heads} does not divide. Change either.",
                subject=subject,
            )
        self._layout, self._name, self.units = layout, f"stream_{number + 1}", hidden[-1]
        self._named = places(named, (*layout.scalar, *layout.bags), SUBJECT._replace(option=STREAMS[number]))
        width, start = num_inputs(options, layout), FIRST_STREAM + 50 * number
        norm, activations = options.normalise == BATCH_NORM, activations_of(options.activation, hidden, "two_stream")
        shapes = zip(itertools.pairwise((width, *hidden)), activations, strict=True)
        self._layers = [
            Layer(f"{self._name}.hidden_{n}", start + n, before, units, activation, False, options.dropout, norm)
            for n, ((before, units), activation) in enumerate(shapes, 1)
        ]
        self._gates = [
            Layer(f"{self._name}.gate_1", start + 48, len(named) * options.dim, options.gate_hidden, "relu"),
            Layer(f"{self._name}.gate_2", start + 49, options.gate_hidden, width, "linear"),
        ]
        gates = [s for gate in self._gates for s in gate.specs()] if named else [DenseSpec(f"{self._name}.gate", (width,))]
        self.specs: tuple[DenseSpec, ...] = (*gates, *(spec for layer in self._layers for spec in layer.specs()))

    def apply(self, parameters: Parameters, inputs: Inputs, x: jax.Array) -> jax.Array:
        """Return float32[batch, units] for x float32[batch, inputs]."""
        if self._named:
            slots = slot_vectors(parameters["vectors"], inputs, self._layout, "sum")[:, jnp.array(self._named)]
            choice = slots.reshape(inputs.batch, -1)
            for gate in self._gates:
                choice = gate.apply(parameters, choice, None)
        else:
            choice = parameters[f"{self._name}.gate"]
        x = x * 2 * jax.nn.sigmoid(choice)
        for layer in self._layers:
            x = layer.apply(parameters, x, inputs.random)
        return x


class Fusion:
    """What joins the streams: a weight for each of their units, and for each pair of them of one head.

    Args:
        units: of each stream.

    Attributes:
        specs: the dense parameters.
    """

    def __init__(self, options: TwoStreamOptions, layout: Layout, units: list[int]) -> None:
        self._heads, number = options.heads, FIRST_STREAM + 100
        self._outputs = [Layer(f"output_{n}", number + n, own, layout.outputs, "linear") for n, own in enumerate(units, 1)]
        one, two = (own // options.heads for own in units)
        shape = (options.heads, one, two, layout.outputs)

        def start(seed: int) -> jax.Array:
            return he_uniform(number, units[0] * two, layout.outputs)(seed).reshape(shape)

        self.specs: tuple[DenseSpec, ...] = (
            *(spec for output in self._outputs for spec in output.specs()),
            DenseSpec("products", shape, start),
        )

    def apply(self, parameters: Parameters, one: jax.Array, two: jax.Array) -> jax.Array:
        """Return float32[batch, labels]."""
        alone = self._outputs[0].apply(parameters, one, None) + self._outputs[1].apply(parameters, two, None)
        first, second = (own.reshape(own.shape[0], self._heads, -1) for own in (one, two))
        return alone + jnp.einsum("bhi,hijl,bhj->bl", first, parameters["products"], second)


TWO_STREAM = Part("two_stream", TwoStreamOptions, two_stream)
