"""XNN: a vector per feature, pooled per slot, and a network over all slots, beside a linear part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from ...platform.dependent import ARRAYS, NUMBERS, when
from ...platform.errors import OptionError, Subject
from ...platform.operators.adagrad import AdagradOptions, adagrad
from ...platform.operators.base import DenseSpec, Operator, TableSpec
from ...platform.operators.ftrl import FtrlOptions, ftrl
from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Intercept, Layout, Online, Traits
from ..layers.activations import ACTIVATIONS
from ..layers.dense_layers import layer_norm
from ..layers.initial import uniform
from ..layers.long_vectors import LONG, LongOptions, admits_long, long_tables
from ..layers.pooling import POOLINGS, dense_vectors, slot_sums, slot_vectors, stacked, summed_slots
from ..layers.stacked import Stacked
from ..linear.interactions import bi_interaction, field_products, inner_products, pair_score
from ..linear.scores import wide_scores
from ..losses import loss_of
from ..positions import groups_of
from .booster import LAYERS, BoosterOptions, BoosterTower
from .sides import SideOptions, SideTowers
from .tower import BATCH_NORM, Tower, activations_of, check_hidden

if TYPE_CHECKING:
    import optax

FIELDS = "fields"


@dataclass(frozen=True)
class XnnOptions(SideOptions, LongOptions, BoosterOptions):
    dim: int = option(8, "elements of a feature's vector", minimum=1, maximum=1024)
    hidden: tuple = option((128, 64), "units of each hidden layer")  # type: ignore[type-arg]
    activation: tuple = option(  # type: ignore[type-arg]
        ("relu",), "of the hidden layers: one for all, or one for each", choices=tuple(ACTIVATIONS), needs=LAYERS
    )
    residual: bool = option(False, "add a layer's inputs to its outputs where it has as many", needs=(when("hidden"),))
    dropout: float = option(
        0.0, "share of hidden units left out of each update", minimum=0, maximum=1, open_maximum=True, needs=LAYERS
    )
    groups: tuple = option((), "slots whose vectors are summed to one: ((user, city), (item, brand))")  # type: ignore[type-arg]
    pooling: str = option(
        "sum",
        "how the vectors of a slot of several values are joined; in a map, each times its number, and mean and root divide by "
        "the sum of the numbers without sign, or its root",
        choices=POOLINGS,
        facts=(ARRAYS,),
    )
    continuous: str = option(
        "standardise",
        "how continuous slots are scaled: values less their running mean, over their deviation; log1p takes logarithms first",
        choices=("standardise", "log1p"),
        facts=(NUMBERS,),
    )
    normalise: str = option(
        "none",
        "layer_norm: normalise each example's inputs; batch_norm: normalise hidden layers, by the batch in training and by "
        "moving averages in scoring; for several passes",
        choices=("none", "layer_norm", BATCH_NORM),
    )
    interaction: str = option(
        "none",
        "how pairs of slots enter: bi adds the sum over all pairs, and makes it an input; pairs learns a weight "
        "for each pair; products are inputs, for scores that depend on which slots agree; fields are products of vectors that "
        "a feature has for each slot that it meets, as in ffm",
        choices=("none", "bi", "pairs", "products", FIELDS),
    )
    field_dim: int = option(
        4, "elements of each of those vectors", minimum=1, maximum=256, needs=(when("interaction", FIELDS),)
    )
    wide: bool = option(
        True, "add the sum of a weight per feature, over the root of their number in an array, with an intercept"
    )
    alpha: float = option(
        0.1, "learning rate of those weights", minimum=0, open_minimum=True, optimizer=True, needs=(when("wide"),)
    )
    vector_learning_rate: float = option(0.02, "learning rate of the vectors", minimum=0, open_minimum=True, optimizer=True)
    learning_rate: float = option(0.001, "learning rate of the network", minimum=0, open_minimum=True)
    init_scale: float = option(0.01, "standard deviation of new vectors", minimum=0)


def xnn(options: XnnOptions, layout: Layout) -> Algorithm:
    """Learn a neural network over a vector per slot: FTRL for weights, AdaGrad for vectors, Adam for layers.

    A feature whose information exceeds `long_information` gets a second vector of `long_dim` elements, which begins at
    zero: frequent, informative features have more dimensions. The second vectors are a table of their own, to which
    admit(information > x) admits.

    Source: He and Chua, Neural Factorization Machines for Sparse Predictive Analytics, SIGIR 2017 (interaction = 'bi'); Pan et
    al., Field-weighted Factorization Machines, WWW 2018 ('pairs'); Qu et al., Product-based Neural Networks, ICDM 2016
    ('products'); Yang et al., Operation-aware Neural Networks for User Response Prediction, Neural Networks 2020 ('fields');
    Cheng et al., Wide & Deep Learning for Recommender Systems, 2016 (wide).
    """
    check_hidden(options.hidden, "hidden", "xnn")
    if layout.classes and options.interaction == "pairs":
        subject = Subject("USING", "xnn", "interaction")
        raise OptionError(f"{subject} = 'pairs' adds the same to all classes of a label. Take 'bi'.", subject=subject)
    loss, network = loss_of(options, layout.classes), Network(options, layout)

    def optimizer(table: TableSpec) -> Operator:
        if table.name == "weights":
            return ftrl(FtrlOptions(alpha=options.alpha), table)
        return adagrad(AdagradOptions(learning_rate=options.vector_learning_rate), table)

    def dense_optimizer() -> optax.GradientTransformation:
        import optax  # costs 0.2 s, which algorithms without layers need not pay

        return optax.adam(options.learning_rate)

    def table(name: str, size: int) -> TableSpec:
        return TableSpec(name, size, uniform(options.init_scale, size))

    weights = (TableSpec("weights", layout.outputs),) if options.wide else ()
    fields = (table(FIELDS, network.pairs * options.field_dim),) if options.interaction == FIELDS else ()
    return Algorithm(
        tables=(*weights, table("vectors", options.dim), *fields, *long_tables(options)),
        optimizer=optimizer,
        learns=Online(
            network.booster.goal(network.scores, network.boosted, loss),
            options.dropout > 0,
            examples_meet=options.normalise == BATCH_NORM,
        ),
        intercept=Intercept() if options.wide else None,
        dense=network.specs,
        dense_optimizer=dense_optimizer,
        operators=admits_long(options),
        traits=Traits(compact=True, logarithmic=options.continuous == "log1p", user=network.sides.user),
    )


class Network:
    """The network of a model: its layers, and how they score a batch.

    Attributes:
        pairs: slots and groups that meet each other, continuous ones too.
    """

    def __init__(self, options: XnnOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout
        self._groups = groups_of(options.groups, layout, Subject("USING", "xnn", "groups"))
        pooled, labels = len(self._groups), layout.outputs
        continuous = len(layout.continuous) + sum(elements for _, elements in layout.vectors)
        inputs = pooled * (options.dim + options.long_dim) + continuous
        inputs += options.dim if options.interaction == "bi" else 0
        self.pairs = pairs = pooled + len(layout.continuous) + len(layout.vectors)
        strength = DenseSpec("pairs", (pairs, pairs), lambda seed: jnp.ones((pairs, pairs)))
        inputs += pairs * (pairs - 1) // 2 if options.interaction in ("products", FIELDS) else 0
        if options.user_tower and self._groups.joined:
            subject = Subject("USING", "xnn", "groups")
            raise OptionError(f"{subject} sums slots of both towers. Take groups or user_tower.", subject=subject)
        self.sides = SideTowers(options, layout, inputs, options.dim, "xnn")
        inputs = self.sides.width
        activations = activations_of(options.activation, options.hidden, "xnn")
        norm = options.normalise == BATCH_NORM
        self._tower = Tower(inputs, options.hidden, labels, activations, options.residual, options.dropout, norm)
        self.booster = BoosterTower(options, options.activation, inputs, labels, options.dropout, norm, "xnn")
        pairwise = (strength,) if options.interaction == "pairs" else ()
        self.specs = (*self._tower.specs, *self.sides.specs, *pairwise, *self.booster.specs)

    def scores(self, parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        """Return float32[batch, num_labels]."""
        score, x = self._below(parameters, inputs)
        return score + self._tower.apply(parameters, x, inputs.random)

    def boosted(self, parameters: Mapping[str, jax.Array], inputs: Inputs, booster: BoosterTower) -> jax.Array:
        """Return the scores of a booster in the tower's place."""
        score, x = self._below(parameters, inputs)
        return score + booster.apply(parameters, x, inputs.random)

    def _below(self, parameters: Mapping[str, jax.Array], inputs: Inputs) -> tuple[jax.Array, jax.Array | Stacked]:
        """Return what is added to the tower's output, and what goes into it."""
        more, score = [inputs.dense], jnp.zeros(())
        if self._options.long_dim:
            more.append(self._slots(parameters[LONG], inputs).reshape(inputs.batch, -1))
        if self._options.interaction == "bi":
            more.append(bi_interaction(*self._slot_sums(parameters["vectors"], inputs)))
            score += more[-1].sum(axis=1, keepdims=True)
        elif self._options.interaction == "pairs":
            score += pair_score(self._all_slots(parameters["vectors"], inputs), parameters["pairs"])
        elif self._options.interaction == "products":
            more.append(inner_products(self._all_slots(parameters["vectors"], inputs)))
        elif self._options.interaction == FIELDS:
            more.append(field_products(self._all_slots(parameters[FIELDS], inputs)))
        if self._options.wide:
            score += wide_scores(parameters["weights"], inputs, self._layout)
        return score, self._inputs(parameters, inputs, more)

    def _inputs(self, parameters: Mapping[str, jax.Array], inputs: Inputs, more: list[jax.Array]) -> jax.Array | Stacked:
        """Return what goes into the network: the vectors of slots, and more."""
        vectors, pooling, norm = parameters["vectors"], self._options.pooling, self._options.normalise == "layer_norm"
        if not self._groups.joined:
            seen = self.sides.apply(parameters, stacked(vectors, inputs, self._layout, pooling, *more))
            return layer_norm(seen.whole()) if norm else seen
        x = jnp.concatenate([self._slots(vectors, inputs).reshape(inputs.batch, -1), *more], axis=1)
        return layer_norm(x) if norm else x

    def _slot_sums(self, vectors: jax.Array, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        """Return the sums over slots and groups of their vectors, and of the squares, float32[batch, dim] both."""
        if self._groups.joined:
            return summed_slots(self._all_slots(vectors, inputs))
        return slot_sums(vectors, inputs, self._layout, self._options.pooling)

    def _all_slots(self, vectors: jax.Array, inputs: Inputs) -> jax.Array:
        """Return the vectors of slots and groups, continuous slots and vectors too, float32[batch, slots, dim]."""
        slots = self._slots(vectors, inputs)
        if not (self._layout.continuous or self._layout.vectors):
            return slots
        return jnp.concatenate([slots, dense_vectors(vectors, inputs, self._layout)], axis=1)

    def _slots(self, vectors: jax.Array, inputs: Inputs) -> jax.Array:
        """Return the vectors of slots and groups, float32[batch, slots, dim]."""
        return self._groups.sums(slot_vectors(vectors, inputs, self._layout, self._options.pooling))


XNN = Part("xnn", XnnOptions, xnn)
