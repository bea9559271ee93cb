"""Shared parts of networks over a vector per slot: options, inputs, and the optimizers of weights, vectors and layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.operators.adagrad import AdagradOptions, adagrad
from ...platform.operators.base import DenseSpec, Operator, TableSpec
from ...platform.operators.ftrl import FtrlOptions, ftrl
from ...platform.options import given_or, known, option
from ..base import Algorithm, Inputs, Intercept, Layout, Online, Parameters, Scores, Traits
from ..layers.activations import ACTIVATIONS
from ..layers.history_search import HistorySearch
from ..layers.initial import uniform
from ..layers.long_vectors import LONG, LongOptions, admits_long, long_tables
from ..layers.pooling import slot_vectors, stacked
from ..layers.stacked import Stacked
from ..linear.scores import wide_scores
from ..losses import Loss
from .booster import LAYERS, BoosterOptions, BoosterTower
from .sides import SideOptions, SideTowers
from .tower import BATCH_NORM, Tower, activations_of, check_hidden

if TYPE_CHECKING:
    import optax

VECTOR_RATE, INIT_SCALE = 0.02, 0.01


@dataclass(frozen=True)
class DeepOptions(LongOptions, BoosterOptions):
    """The options of networks over a vector per slot, beside what they have more."""

    dim: int = option(8, "elements of a feature's vector; 16 for tens of millions of examples", minimum=1, maximum=1024)
    hidden: tuple = option((128, 64), "units of each hidden layer; wider for long logs")  # type: ignore[type-arg]
    activation: tuple = option(  # type: ignore[type-arg]
        ("relu",),
        "of the hidden layers: one for all, or one for each; prelu and dice have a learned slope, running_dice uses "
        "moving averages, for long logs",
        choices=tuple(ACTIVATIONS),
        needs=LAYERS,
    )
    dropout: float = option(
        0.0,
        "share of hidden units left out of each update; raise it where several passes overfit",
        minimum=0,
        maximum=1,
        open_maximum=True,
        needs=LAYERS,
    )
    normalise: str = option(
        "none",
        "batch_norm: hidden layers are normalised by the batch in training and by moving averages in scoring; for "
        "several passes",
        choices=("none", BATCH_NORM),
        needs=LAYERS,
    )
    wide: bool = option(True, "add the sum of a weight per feature, with an intercept; without it several passes overfit later")
    alpha: float = option(
        0.1,
        "learning rate of the linear weights; raise it for short logs",
        minimum=0,
        open_minimum=True,
        optimizer=True,
        needs=(when("wide"),),
    )
    vector_learning_rate: float | None = option(
        None,
        "learning rate of the vectors; by default 0.02; raise it for short logs",
        minimum=0,
        open_minimum=True,
        optimizer=True,
    )
    learning_rate: float = option(
        0.001, "learning rate of the layers; lower it if the loss jumps", minimum=0, open_minimum=True
    )
    init_scale: float | None = option(
        None, "standard deviation of new vectors; by default 0.01; raise it for short logs", minimum=0
    )

    def adapted(self, layout: Layout) -> Self:
        """See `adapted` of platform/options."""
        return given_or(self, vector_learning_rate=VECTOR_RATE, init_scale=INIT_SCALE)


@dataclass(frozen=True)
class SidedOptions(SideOptions, DeepOptions):
    """The options of wide_deep and deepfm."""


class LayerInputs(NamedTuple):
    """What layers see.

    Attributes:
        width: of it.
        inputs: (parameters, inputs) -> the numbers of each example, that wide.
        user: names of the slots that reach it through a tower of the user.
        specs: the dense parameters of towers below it.
        search: chooses what is seen of histories that are searched.
    """

    width: int
    inputs: Callable[[Parameters, Inputs], Stacked]
    user: tuple[str, ...] = ()
    specs: tuple[DenseSpec, ...] = ()
    search: HistorySearch | None = None


def deep(
    options: DeepOptions,
    layout: Layout,
    dense: tuple[DenseSpec, ...],
    scores: Scores,
    loss: Loss,
    algorithm: str,
    finish: Callable[[jax.Array], jax.Array] = lambda scores: scores,
    random: bool = False,
    seen: LayerInputs | None = None,
) -> Algorithm:
    """Return a network with a linear part: FTRL for its table `weights`, AdaGrad for `vectors`, Adam for layers.

    Args:
        dense: the parameters of the layers.
        scores, loss: what it minimises; with a booster, which has the same linear part, more.
        algorithm: its name, for messages.
        finish: makes scores of what layers and linear part give together.
        random: an update needs random numbers, without dropout too.
        seen: what the network sees, and a booster too; None: network_inputs.
    """
    options = options.adapted(layout)
    vector_rate, scale = known(options.vector_learning_rate), known(options.init_scale)
    seen = seen or LayerInputs(
        num_inputs(options, layout), lambda parameters, inputs: network_inputs(parameters, inputs, layout)
    )
    norm = options.normalise == BATCH_NORM
    booster = BoosterTower(options, options.activation, seen.width, layout.outputs, options.dropout, norm, algorithm)

    def optimizer(table: TableSpec) -> Operator:
        if table.name == "weights":
            return ftrl(FtrlOptions(alpha=options.alpha), table)
        return adagrad(AdagradOptions(learning_rate=vector_rate), table)

    def boosted(parameters: Parameters, inputs: Inputs, booster: BoosterTower) -> jax.Array:
        deep_part = booster.apply(parameters, seen.inputs(parameters, inputs), inputs.random)
        return finish(linear_part(parameters, inputs, layout) + deep_part)

    def dense_optimizer() -> optax.GradientTransformation:
        import optax  # costs 0.2 s, which algorithms without layers need not pay

        return optax.adam(options.learning_rate)

    weights = (TableSpec("weights", layout.outputs),) if options.wide else ()
    vectors = TableSpec("vectors", options.dim, uniform(scale, options.dim))
    return Algorithm(
        tables=(*weights, vectors, *long_tables(options)),
        optimizer=optimizer,
        learns=Online(booster.goal(scores, boosted, loss), random=random or options.dropout > 0, examples_meet=norm),
        intercept=Intercept() if options.wide else None,
        dense=(*dense, *seen.specs, *booster.specs),
        dense_optimizer=dense_optimizer,
        operators=admits_long(options),
        traits=Traits(compact=True, user=seen.user, search=seen.search),
    )


def linear_part(parameters: Parameters, inputs: Inputs, layout: Layout) -> jax.Array:
    """Return the sum of a weight per feature and the intercept, float32[batch, outputs]; 0 where a network has none."""
    return wide_scores(parameters["weights"], inputs, layout) if "weights" in parameters else jnp.zeros(())


def num_inputs(options: DeepOptions, layout: Layout) -> int:
    """Return how many inputs layers have; see network_inputs."""
    slots = len(layout.scalar) + len(layout.bags)
    return slots * (options.dim + options.long_dim) + len(layout.continuous) + sum(elements for _, elements in layout.vectors)


def network_inputs(parameters: Parameters, inputs: Inputs, layout: Layout, *more: jax.Array) -> Stacked:
    """Return the vectors of slots, the dense values of each example, and `more`, each float32[batch, k]."""
    if LONG in parameters:
        more = (slot_vectors(parameters[LONG], inputs, layout, "sum").reshape(inputs.batch, -1), *more)
    return stacked(parameters["vectors"], inputs, layout, "sum", inputs.dense, *more)


def sided_inputs(options: SidedOptions, layout: Layout, algorithm: str) -> LayerInputs:
    """Return network_inputs, through the towers of both sides where there are any; see SideTowers."""
    sides = SideTowers(options, layout, num_inputs(options, layout), options.dim, algorithm)
    return LayerInputs(
        sides.width,
        lambda parameters, inputs: sides.apply(parameters, network_inputs(parameters, inputs, layout)),
        sides.user,
        sides.specs,
    )


def deep_tower(options: DeepOptions, layout: Layout, algorithm: str, width: int | None = None) -> Tower:
    """Return the hidden layers over what is `width` wide, by default network_inputs, with an output per label.

    Raises:
        OptionError: a hidden layer without a number of units or without an activation; names the algorithm.
    """
    check_hidden(options.hidden, "hidden", algorithm)
    outputs = layout.outputs
    activations = activations_of(options.activation, options.hidden, algorithm)
    norm = options.normalise == BATCH_NORM
    width = num_inputs(options, layout) if width is None else width
    return Tower(width, options.hidden, outputs, activations, False, options.dropout, norm)
