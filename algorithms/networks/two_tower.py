"""Two towers (dual encoder): a vector of the user and a vector of each item, whose inner product says how well they match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject
from ...platform.operators.adagrad import AdagradOptions, adagrad
from ...platform.operators.base import DenseSpec, TableSpec
from ...platform.options import Part, option
from ...platform.registry import POSITIVE
from ..augments.random_items import RandomItems
from ..base import Algorithm, Inputs, Layout, Match, Online, Output, Parameters, Sizing, Traits, Unsupervised
from ..layers.dense_layers import Layer, dropped
from ..layers.initial import uniform
from ..layers.lookups import of_examples
from ..layers.pooling import chosen_vectors, common_vectors
from ..positions import places
from ..sampled_recall import found_in
from .tower import BATCH_NORM, check_hidden

if TYPE_CHECKING:
    import optax

SUBJECT = Subject("USING", "two_tower")
SMALLEST = 1e-12
NEVER = -1e9
UNKNOWN_ROWS = 4096
"""Before an item was first taken, which tell that it is not taken often."""


@dataclass(frozen=True)
class TwoTowerOptions:
    query: tuple = option(  # type: ignore[type-arg]
        ("user",), "slots of the user: the user's id first, where it is a slot, then histories and profile"
    )
    item: tuple = option(("item",), "slots of the item: its id first, then what describes it")  # type: ignore[type-arg]
    dim: int = option(64, "elements of a vector, of a feature and of a tower", minimum=1, maximum=1024)
    hidden: tuple = option((), "units of the hidden layers of each tower; (128,) for long logs")  # type: ignore[type-arg]
    normalise: str = option(
        "none",
        "batch_norm: hidden layers are normalised by the batch in training and by moving averages in scoring; for "
        "several passes",
        choices=("none", BATCH_NORM),
        needs=(when("hidden"),),
    )
    temperature: float = option(
        0.1, "inner products are divided by it; lower it for long logs", minimum=0, open_minimum=True, maximum=10
    )
    negatives: int = option(
        0,
        "random items used as additional negatives, drawn for each batch from ITEMS, or else from some 131,072 rows",
        minimum=0,
        maximum=65_536,
    )
    correction: str = option(
        "logq",
        "correct scores for items that are negatives in proportion to how often they are taken",
        choices=("logq", "none"),
    )
    item_dropout: float = option(
        0.1,
        "share of updates that see an item without its id, so that its other slots learn to describe a new item",
        minimum=0,
        maximum=1,
        open_maximum=True,
        needs=(when("item", least=2),),
    )
    vector_learning_rate: float = option(
        0.1, "learning rate of the features' vectors", minimum=0, open_minimum=True, optimizer=True
    )
    learning_rate: float = option(0.001, "learning rate of the layers", minimum=0, open_minimum=True)
    init_scale: float = option(0.1, "standard deviation of new vectors", minimum=0)


def two_tower(options: TwoTowerOptions, layout: Layout) -> Algorithm:
    """Learn a vector of the query and one of the item, each by layers over its own slots, of length 1: retrieval.

    A row says that a user took an item. With LABEL, rows with 1 do, and other rows are left out. The loss contrasts the
    item of a row with the items of the other rows of the batch (in-batch negatives):

        s_ij = <q_i, v_j> / temperature - log(share_j),   loss_i = log(sum over j of exp(s_ij)) - s_ii

    share_j is the share of rows that took item j, among the rows since item j (its first slot) was first taken and 4,096
    more. It corrects that frequent items are negatives more often (correction = 'logq'); a new item does not count as rare.
    With `negatives` = n, j is also one of n random items, and rows x share_j + n / items replaces share_j: how often item j
    is expected among all. The same item in another row is not a negative, nor is another row of the same user, if the first
    slot of the query is categorical.

    In a share `item_dropout` of updates, an item is learned without its id, from its other slots only, as a new item is
    scored. Slots of several values are summed over the root of their number. In training, `mae` is the mean loss, which
    grows with the batch, because larger batches have more negatives; `recall` is the share of rows whose item is in the
    best twentieth of these.

    ML.PREDICT gives predicted_vector of the query and predicted_item of the item, and ML.RECOMMEND ranks items by their
    product.

    Source: Huang et al., "Learning Deep Structured Semantic Models for Web Search", CIKM 2013; Yi et al.,
    "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations", RecSys 2019; random items beside the
    batch's own: Yang et al., "Mixed Negative Sampling for Learning Two-tower Neural Networks in Recommendations", WWW 2020,
    with the balance heuristic of Veach and Guibas, SIGGRAPH 1995; dropout of ids: Volkovs et al., "DropoutNet", NeurIPS 2017.

    Raises:
        OptionError: a named slot is missing, or a slot is in both towers or in neither.
    """
    if layout.offered:
        message = f"{SUBJECT} takes no rates of clicks: it learns only from items taken, and keeps the vectors of items."
        raise OptionError(message, subject=SUBJECT)
    query = places(options.query, layout.slots, SUBJECT._replace(option="query"))
    item = places(options.item, layout.slots, SUBJECT._replace(option="item"))
    check_slots(layout, query, item)
    check_hidden(options.hidden, "hidden", "two_tower")
    names = tuple(layout.slots[place] for place in item)
    towers, lines = Towers(options, layout, query, item), len(layout.scalar) + len(layout.bags)
    return Algorithm(
        tables=(TableSpec("vectors", options.dim, uniform(options.init_scale, options.dim)),),
        optimizer=lambda table: adagrad(AdagradOptions(learning_rate=options.vector_learning_rate), table),
        learns=Online(
            Unsupervised(towers.objective, finds=True),
            random=options.item_dropout > 0 and len(item) > 1,
            augment=(RandomItems(options.negatives, names),) if options.negatives else (),
            examples_meet=True,
        ),
        dense=(*towers.query.specs, *towers.item.specs),
        dense_optimizer=towers.dense_optimizer,
        outputs={"vector": Output(towers.query_vectors, vector=True), "item": Output(towers.item_vectors, vector=True)},
        items=Match("vector", "item", tuple(layout.slots[place] for place in query), names),
        sizing=Sizing(least_batch=256),
        traits=Traits(
            compact=not options.negatives and options.normalise != BATCH_NORM,  # else a batch's rows weigh as their groups
            statistics=("count", "age") if options.correction == "logq" else (),
            user=tuple(layout.slots[place] for place in query) if max(query) < lines else (),
        ),
    )


class Towers:
    """Both towers, and the loss of their products.

    Args:
        query, item: places of their slots.

    Attributes:
        query, item: the towers.
    """

    def __init__(self, options: TwoTowerOptions, layout: Layout, query: Sequence[int], item: Sequence[int]) -> None:
        self._options, self._layout, self._of_query, self._of_item = options, layout, query, item
        self.query, self.item = SlotTower("query", 0, len(query), options), SlotTower("item", 1, len(item), options)

    def dense_optimizer(self) -> optax.GradientTransformation:
        """Return the optimizer of layers."""
        import optax  # costs 0.2 s, which algorithms without layers need not pay

        return optax.adam(self._options.learning_rate)

    def _vectors(self, parameters: Parameters, inputs: Inputs, slots: Sequence[int]) -> jax.Array:
        return chosen_vectors(parameters["vectors"], inputs, self._layout, "root", slots)

    def _queries(self, parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array | None]:
        """Return the vector of each group that has all slots of the query in common, and the groups of examples; where there
        are none, that of each example, and None."""
        common = common_vectors(parameters["vectors"], inputs, self._layout, "root", self._of_query)
        if common is None or inputs.group is None:
            return self.query.apply(parameters, self._vectors(parameters, inputs, self._of_query)), None
        return self.query.apply(parameters, common), inputs.group.owner

    def query_vectors(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return the vector of each example's query, float32[batch, dim]."""
        return of_examples(*self._queries(parameters, inputs))

    def item_vectors(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return the vector of each example's item, float32[batch, dim]."""
        return self.item.apply(parameters, self._vectors(parameters, inputs, self._of_item))

    def objective(self, parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        """Return the loss of each example, and beside it whether its item is found among the others; see two_tower."""
        options, slots = self._options, self._vectors(parameters, inputs, self._of_item)
        drawn = 0 if inputs.expected is None else inputs.expected.shape[0]
        rows = len(slots) - drawn
        own, owner = self._queries(parameters, inputs)
        if options.item_dropout and len(self._of_item) > 1 and inputs.random is not None:
            kept = dropped(jnp.ones((len(slots), 1)), options.item_dropout, inputs.random, 0)
            slots = slots.at[:, 0].multiply(kept)
        items = self.item.apply(parameters, slots)
        scores = of_examples((own if drawn == 0 else own[:rows]) @ items.T / options.temperature, owner)
        raw = scores
        taken, there = inputs.scalar[self._of_item[0]], inputs.weight > 0
        same = taken[:rows, None] == taken[None]
        if options.correction == "logq":
            scores -= jnp.log(jnp.maximum(expected_items(inputs, taken, same & there[:rows, None]), SMALLEST))[None]
        others = (there | (jnp.arange(len(slots)) >= rows))[None] & ~same
        if self._of_query[0] < len(self._layout.scalar):
            user = inputs.scalar[self._of_query[0]]
            others &= (user[:rows, None] != user[None]) | (jnp.arange(len(slots)) >= rows)
        scores = jnp.where(others | jnp.eye(rows, len(slots), dtype=bool), scores, NEVER)
        losses = jax.nn.logsumexp(scores, axis=1) - jnp.diagonal(scores)
        found = jnp.stack([losses, found_in(raw, jnp.diagonal(raw), others)], axis=1)
        return jnp.pad(losses, (0, drawn))[:, None], jnp.pad(found, ((0, drawn), (0, 0)))


def expected_items(inputs: Inputs, taken: jax.Array, same: jax.Array) -> jax.Array:
    """Return the share of rows that take each item of a batch, or how often it is to be expected among rows and random items,
    float32[batch].

    Args:
        taken: int32[batch], the rows of items.
        same: bool[rows, batch], whether a row that counts takes an item.
    """
    count, age = known(inputs, taken)
    examples = (inputs.weight > 0).sum()
    share = (same.sum(axis=0) + count) / (examples + age + UNKNOWN_ROWS)
    return share if inputs.expected is None else examples * share + inputs.expected[0]


def known(inputs: Inputs, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return how often the features of some rows occurred before the batch, and in how many examples; 0 where that is not
    known."""
    if inputs.statistics is None:
        return jnp.zeros(rows.shape), jnp.zeros(rows.shape)
    return inputs.statistics[rows, 0], inputs.statistics[rows, 1]


class SlotTower:
    """Layers over the vectors of some slots, to a vector of length 1.

    Args:
        name: its layers' names begin with it.
        number: of the tower, for its initial values.
        slots: how many there are.

    Attributes:
        specs: the dense parameters.
    """

    def __init__(self, name: str, number: int, slots: int, options: TwoTowerOptions) -> None:
        widths = [slots * options.dim, *options.hidden, options.dim]
        last, norm = len(options.hidden), options.normalise == BATCH_NORM
        numbered = [(f"{name}_{i}", 100 * number + i, widths[i], widths[i + 1]) for i in range(last + 1)]
        self._layers = [*(Layer(*one, "relu", norm=norm) for one in numbered[:last]), Layer(*numbered[last], "linear")]
        self.specs: tuple[DenseSpec, ...] = tuple(spec for layer in self._layers for spec in layer.specs())

    def apply(self, parameters: Parameters, vectors: jax.Array) -> jax.Array:
        """Return float32[n, dim] for the vectors of the slots, float32[n, slots, dim]."""
        x = vectors.reshape(vectors.shape[0], -1)
        for layer in self._layers:
            x = layer.apply(parameters, x, None)
        return x * jax.lax.rsqrt(jnp.maximum((x * x).sum(axis=1, keepdims=True), SMALLEST))


def check_slots(layout: Layout, query: Sequence[int], item: Sequence[int]) -> None:
    """Raise OptionError unless every slot is in one of the towers, and an item's first slot is categorical."""
    for name, chosen in (("query", query), ("item", item)):
        if not chosen:
            subject = SUBJECT._replace(option=name)
            raise OptionError(f"{subject} expects one or more slots, like {name} = ({layout.slots[0]}).", subject=subject)
    if item[0] >= len(layout.scalar):
        subject = SUBJECT._replace(option="item")
        message = f"{subject} begins with {layout.slots[item[0]]}, which is not categorical. Name the item's id first."
        raise OptionError(message, subject=subject)
    for place, slot in enumerate(layout.slots):
        towers = (place in query) + (place in item)
        if towers != 1:
            where = "both towers; leave it in one" if towers else "neither query nor item; name it there or in IGNORE"
            raise OptionError(f"{SUBJECT}: the slot {slot} is in {where}.", subject=SUBJECT)


TWO_TOWER = Part("two_tower", TwoTowerOptions, two_tower, POSITIVE)
