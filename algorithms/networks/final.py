"""FinalNet: layers that multiply what they make of their inputs, so that each doubles the degree of what it can tell."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject
from ...platform.operators.base import DenseSpec
from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Layout, Parameters
from ..layers.batch_norm import norm_specs, normalised
from ..layers.dense_layers import Layer, branch, dropped, he_uniform
from ..layers.long_vectors import LONG
from ..layers.pooling import slot_vectors
from ..layers.stacked import Stacked
from ..losses import Loss, loss_of
from .booster import LAYERS
from .deep import DeepOptions, deep, linear_part, network_inputs, num_inputs
from .tower import BATCH_NORM, check_hidden

FIRST_FINAL = 401  # the number of the first layer, so that its initial values differ from other layers'
MOST = 1e12  # of what a layer gives: the square of the next one is still a number
HIDDEN = Subject("USING", "final", "hidden")


@dataclass(frozen=True)
class FinalOptions(DeepOptions):
    activation: tuple = option(("relu",), "of a booster's hidden layers", needs=(when("booster"),))  # type: ignore[type-arg]
    normalise: str = option(
        BATCH_NORM,
        "batch_norm: hidden layers are normalised by the batch in training and by moving averages in scoring",
        choices=("none", BATCH_NORM),
        needs=LAYERS,
    )
    blocks: int = option(2, "networks side by side; the first of two sees slots weighed by the others", minimum=1, maximum=2)


def final(options: FinalOptions, layout: Layout) -> Algorithm:
    """Learn one or two networks of factorised layers over a vector per slot, with a weight per feature.

        layer:  a, b = halves of x W + c;  y = relu(normalised([a, a * b]))
        score = linear part + mean of the blocks' outputs

    The first of two blocks gets each slot's vector times 1 + the output of a matrix over the vectors of all slots. Each
    block also learns from the score of both: its distance to their common prediction is added to the loss.

    Source: Zhu et al., "FINAL: Factorized Interaction Layer for CTR Prediction", SIGIR 2023.

    Raises:
        OptionError: no hidden layers, or an odd number of units.
    """
    check_hidden(options.hidden, "hidden", "final")
    if not options.hidden or any(units % 2 for units in options.hidden):
        raise OptionError(f"{HIDDEN} expects even numbers of units, one or more; got {options.hidden}.", subject=HIDDEN)
    network, loss = Blocks(options, layout), loss_of(options, layout.classes)

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        outputs = network.outputs(parameters, inputs)
        return linear_part(parameters, inputs, layout) + sum(outputs) / len(outputs)

    made = deep(options, layout, network.specs, scores, loss, "final")
    goal = made.supervised
    if options.blocks == 1 or options.booster or goal is None:
        return made

    def objective(parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        linear, outputs = linear_part(parameters, inputs, layout), network.outputs(parameters, inputs)
        whole = linear + sum(outputs) / len(outputs)
        return loss.value(whole, inputs.label) + sum(distance(loss, whole, linear + own) for own in outputs), whole

    return made.with_goal(goal._replace(objective=objective))


def distance(loss: Loss, taught: jax.Array, scores: jax.Array) -> jax.Array:
    """Return how far scores are from the predictions of others, to which no gradient flows, [batch, labels] or, of classes,
    [batch, 1]."""
    taught = jax.lax.stop_gradient(taught)
    if loss.multiclass:
        return -(jax.nn.softmax(taught) * jax.nn.log_softmax(scores)).sum(axis=1, keepdims=True)
    if loss.classifier:
        return jnp.logaddexp(0, scores) - jax.nn.sigmoid(taught) * scores
    return 0.5 * (scores - taught) ** 2


class Blocks:
    """The network: one or two blocks of factorised layers.

    Attributes:
        specs: the dense parameters.
    """

    def __init__(self, options: FinalOptions, layout: Layout) -> None:
        self._options, self._layout = options, layout
        self._slots = len(layout.scalar) + len(layout.bags)
        widths = [num_inputs(options, layout), *options.hidden]
        self._layers = list(itertools.pairwise(widths))
        self._outputs = [
            Layer(f"block_{block}.output", FIRST_FINAL + 50 * block - 1, widths[-1], layout.outputs, "linear")
            for block in range(1, options.blocks + 1)
        ]
        self._normalises = options.normalise == BATCH_NORM
        gate = (DenseSpec("gate", (self._slots, self._slots)),) if options.blocks == 2 and self._slots else ()
        self.specs: tuple[DenseSpec, ...] = (*gate, *(s for n in range(1, options.blocks + 1) for s in self._block_specs(n)))

    def _block_specs(self, block: int) -> list[DenseSpec]:
        specs = list(self._outputs[block - 1].specs())
        for number, (inputs, units) in enumerate(self._layers, 1):
            name = f"block_{block}.hidden_{number}"
            kernel = he_uniform(FIRST_FINAL + 50 * (block - 1) + number, inputs, units)
            specs += [DenseSpec(f"{name}.kernel", (inputs, units), kernel), DenseSpec(f"{name}.bias", (units,))]
            specs += [DenseSpec(f"{name}.shift", (units,)), *norm_specs(name, (units,))] if self._normalises else []
        return specs

    def outputs(self, parameters: Parameters, inputs: Inputs) -> list[jax.Array]:
        """Return what each block gives, float32[batch, labels]."""
        plain = network_inputs(parameters, inputs, self._layout)
        seen: list[jax.Array | Stacked] = (
            [plain] if self._options.blocks == 1 else [self._gated(parameters, inputs, plain), plain]
        )
        return [self._block(parameters, block, x, inputs.random) for block, x in enumerate(seen, 1)]

    def _gated(self, parameters: Parameters, inputs: Inputs, plain: Stacked) -> jax.Array | Stacked:
        """Return the inputs with each slot's vector weighed by what the other slots are."""
        if not self._slots:
            return plain
        slots = slot_vectors(parameters["vectors"], inputs, self._layout, "sum")
        slots = slots * (1 + jnp.einsum("st,btd->bsd", parameters["gate"], slots))
        parts = [slots.reshape(inputs.batch, -1)]
        if LONG in parameters:
            parts.append(slot_vectors(parameters[LONG], inputs, self._layout, "sum").reshape(inputs.batch, -1))
        return jnp.concatenate([*parts, inputs.dense], axis=1)

    def _block(self, parameters: Parameters, block: int, x: jax.Array | Stacked, random: jax.Array | None) -> jax.Array:
        for number in range(1, len(self._layers) + 1):
            own = branch(parameters, f"block_{block}.hidden_{number}")
            x = factorised(own, x, partial(normalised, branch(own, "norm")) if self._normalises else None)
            if self._options.dropout and random is not None:
                x = dropped(x, self._options.dropout, random, FIRST_FINAL + 50 * (block - 1) + number)
        return self._outputs[block - 1].apply(parameters, x, None)


def factorised(parameters: Parameters, x: jax.Array | Stacked, normalise: Callable[[jax.Array], jax.Array] | None) -> jax.Array:
    """Return a factorised layer of x float32[batch, inputs], rectified, float32[batch, units]."""
    kernel = parameters["kernel"]
    a, b = jnp.split((x.times(kernel) if isinstance(x, Stacked) else x @ kernel) + parameters["bias"], 2, axis=1)
    y = jnp.concatenate([a, a * b], axis=1)
    return jnp.minimum(jax.nn.relu(y if normalise is None else normalise(y) + parameters["shift"]), MOST)


FINAL = Part("final", FinalOptions, final)
