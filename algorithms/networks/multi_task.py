"""Several labels of one example by one network: shared vectors, experts, and a chain where one label needs the other."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject
from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Layout, Output, Parameters
from ..layers.activations import ACTIVATIONS
from ..layers.experts import Level, Mixed
from ..layers.parallel import Parallel
from ..layers.stacked import Stacked
from ..losses import Loss, loss_of
from .booster import LAYERS
from .deep import DeepOptions, deep, linear_part, network_inputs, num_inputs
from .tower import BATCH_NORM, activations_of, check_hidden

CHAIN, TASK_WEIGHTS = (Subject("USING", "multi_task", name) for name in ("chain", "task_weights"))
EXPERTS = when("base", "mmoe", "ple")
OWN = (when("base", "ple"),)
TOWERS = 0  # the number of the towers' first layer, before the experts'


@dataclass(frozen=True)
class MultiTaskOptions(DeepOptions):
    activation: tuple = option(  # type: ignore[type-arg]
        ("relu",),
        "of the hidden layers: one for all, or one for each; of experts the first",
        choices=tuple(ACTIVATIONS),
        needs=(*LAYERS, EXPERTS),
    )
    dropout: float = option(
        0.0,
        "share of hidden units left out of each update; raise it where several passes overfit",
        minimum=0,
        maximum=1,
        open_maximum=True,
        needs=(*LAYERS, EXPERTS),
    )
    base: str = option(
        "shared",
        "what labels share: vectors alone; mmoe, experts that each label weighs; ple, these and experts of each label's "
        "own, for labels that disturb each other",
        choices=("shared", "mmoe", "ple"),
    )
    chain: bool = option(
        False,
        "a label can be 1 only if the one before it in LABEL is, as in LABEL click, buy: their probabilities are multiplied",
    )
    task_weights: tuple = option((), "weight of each label's loss, in the order of LABEL; () for equal ones")  # type: ignore[type-arg]
    experts: int = option(4, "experts that all labels share", minimum=1, maximum=256, needs=(EXPERTS,))
    own_experts: int = option(1, "experts of each label's own", minimum=1, maximum=256, needs=OWN)
    expert_hidden: tuple = option((64, 32), "units of each hidden layer of an expert", needs=(EXPERTS,))  # type: ignore[type-arg]
    levels: int = option(1, "levels of experts", minimum=1, maximum=8, needs=OWN)
    gate_dropout: float = option(
        0.1,
        "share of experts left out of each update, so that labels do not all use the same one",
        minimum=0,
        maximum=1,
        open_maximum=True,
        needs=(EXPERTS,),
    )


def multi_task(options: MultiTaskOptions, layout: Layout) -> Algorithm:
    """Learn several labels, a tower of `hidden` layers for each, over shared vectors or over experts, with linear parts.

    With `chain`, the tower of a label predicts its probability given the previous label, which ML.PREDICT returns as
    predicted_<label>_given_<label>. All towers learn from all examples, so no label is learned from a selected part of
    them. The score of a product of probabilities sigmoid(a) sigmoid(b) is -log(exp(-a) + exp(-b) + exp(-a - b)), without
    underflow.

    Source: Ma et al., "Entire Space Multi-Task Model", SIGIR 2018 (shared, chain); Ma et al., "Modeling Task Relationships in
    Multi-task Learning with Multi-gate Mixture-of-Experts", KDD 2018 (mmoe); Tang et al., "Progressive Layered Extraction",
    RecSys 2020 (ple).

    Raises:
        OptionError: layers without units, weights that do not name the labels, or a chain of one label, or without
            probabilities.
    """
    labels, loss = layout.labels, weighed(loss_of(options), options, layout)
    network = TaskHeads(options, layout)
    chained = options.chain

    def scores(parameters: Parameters, inputs: Inputs) -> jax.Array:
        own = network.scores(parameters, inputs)
        return along(own) if chained else own

    def given(label: int, parameters: Parameters, inputs: Inputs) -> jax.Array:
        return jax.nn.sigmoid(network.scores(parameters, inputs)[:, label])

    random = options.base != "shared" and options.gate_dropout > 0
    made = deep(options, layout, network.specs, scores, loss, "multi_task", along if chained else (lambda own: own), random)
    if not chained:
        return made
    names = [f"{label}_given_{before}" for before, label in itertools.pairwise(labels)]
    outputs = {name: Output(partial(given, label)) for label, name in enumerate(names, 1)}
    assert made.supervised is not None
    return replace(made.with_goal(made.supervised._replace(labels="chain")), outputs=outputs)


class TaskHeads:
    """The network: experts, where there are any, and the labels' towers.

    Attributes:
        specs: the dense parameters.
    """

    def __init__(self, options: MultiTaskOptions, layout: Layout) -> None:
        check_hidden(options.hidden, "hidden", "multi_task")
        check_hidden(options.expert_hidden, "expert_hidden", "multi_task")
        self._layout, labels = layout, len(layout.labels)
        inputs, own = num_inputs(options, layout), options.own_experts if options.base == "ple" else 0
        levels = {"shared": 0, "mmoe": 1, "ple": options.levels}[options.base]
        hidden = options.expert_hidden
        activations = activations_of(options.activation[:1], hidden, "multi_task") if levels else ()
        made = []
        norm = options.normalise == BATCH_NORM
        for number in range(1, levels + 1):
            sizes = labels, own, options.experts, inputs, hidden, activations
            made.append(Level.of(number, *sizes, options.dropout, options.gate_dropout, number == levels, norm))
            inputs = made[-1].experts.units
        self._levels = tuple(made)
        activations = activations_of(options.activation, options.hidden, "multi_task")
        self._towers = Parallel("towers", TOWERS, labels, inputs, options.hidden, activations, 1, options.dropout, norm)
        self.specs = (*(spec for level in self._levels for spec in level.specs()), *self._towers.specs())

    def scores(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return float32[batch, num_labels], of a chain each label's given the one before it."""
        x: jax.Array | Stacked | Mixed = network_inputs(parameters, inputs, self._layout)
        for level in self._levels:
            x = level.apply(parameters, x, inputs.random)
        towers = self._towers.apply(parameters, x.of_labels if isinstance(x, Mixed) else x, inputs.random)
        return linear_part(parameters, inputs, self._layout) + towers[:, :, 0]


def along(scores: jax.Array) -> jax.Array:
    """Return the scores of the products of probabilities along a chain.

    Args:
        scores: float32[batch, num_labels], of each label given the one before it.

    Source: 1 / (sigmoid(a) sigmoid(b)) - 1 = exp(-a) + exp(-b) + exp(-a - b).
    """
    chain = [scores[:, 0]]
    for label in range(1, scores.shape[1]):
        a, b = chain[-1], scores[:, label]
        chain.append(-jax.nn.logsumexp(jnp.stack([-a, -b, -a - b]), axis=0))
    return jnp.stack(chain, axis=1)


def weighed(loss: Loss, options: MultiTaskOptions, layout: Layout) -> Loss:
    """Return the loss with the labels' weights.

    Raises:
        OptionError: they are not as many as the labels, or the chain cannot be one.
    """
    number, weights = len(layout.labels), options.task_weights
    if options.chain and number < 2:
        raise OptionError(f"{CHAIN} expects two labels or more, as in LABEL click, buy.", subject=CHAIN)
    if options.chain and options.loss != "logloss":
        message = f"{CHAIN} multiplies probabilities, which loss = {options.loss!r} does not give. Use logloss."
        raise OptionError(message, subject=CHAIN)
    if not weights:
        return loss
    numbers = [weight for weight in weights if isinstance(weight, int | float) and not isinstance(weight, bool)]
    if len(weights) != number or len(numbers) != number or not all(weight > 0 and math.isfinite(weight) for weight in numbers):
        message = f"{TASK_WEIGHTS} expects a number above 0 for each of the {number} labels; got {weights}."
        raise OptionError(message, subject=TASK_WEIGHTS)

    def value(scores: jax.Array, labels: jax.Array) -> jax.Array:
        return loss.value(scores, labels) * jnp.array(numbers, jnp.float32)

    return loss._replace(value=value)


MULTI_TASK = Part("multi_task", MultiTaskOptions, multi_task)
