"""DIEN: a network that sees how the interest in a target has evolved along a history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...platform.operators.base import mixed
from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Layout, Losses, Online, Parameters
from ..blocks.histories import History
from ..layers.attention import Attention
from ..layers.gru import Gru
from ..layers.lookups import gathered, of_examples, projected
from ..layers.packed import places_of
from ..layers.stacked import Stacked
from ..losses import loss_of
from .deep import LayerInputs, deep, linear_part, network_inputs, num_inputs
from .interest import ATTENTION, Interest, InterestOptions, check_attention
from .tower import BATCH_NORM, Tower, activations_of, check_hidden

EXTRACTION, EVOLUTION = 200, 201  # numbers of the recurrent layers, after attention's


@dataclass(frozen=True)
class DienOptions(InterestOptions):
    """Options of dien."""

    auxiliary: float = option(
        1.0, "weight of the loss that contrasts the next element of a history with a random one; 0 for none", minimum=0
    )


class Evolved(NamedTuple):
    """What a history comes to.

    Attributes:
        seen: what the layers see.
        states: float32[n, L, width], the interest after each element of n histories.
        vectors: float32[n, L, width], the elements.
        history: their rows and mask, and which examples they are of.
    """

    seen: Stacked
    states: jax.Array
    vectors: jax.Array
    history: History


def dien(options: DienOptions, layout: Layout) -> Algorithm:
    """Learn a network over the slots and how the interest in the target has evolved: Deep Interest Evolution Network.

        h_i = GRU(element_i);  a_i = softmax of attention(target, h_i);  h'_i = AUGRU(h_i, a_i)
        score = linear part + network(slots, sum of history, target * sum of history, last h')

    Attention is that of din. In training, each h_i with an element after it also learns to distinguish that element from a
    random one of the batch's histories: the loss gets auxiliary * the mean over an example's elements of -log sigmoid(<h_i,
    next>) - log(1 - sigmoid(<h_i, drawn>)). Elements of the same history are not drawn; neighbours with the same history
    share the drawn elements.

    Other slots are as in xnn. With WITH (share = (clicked_items AS item)) elements and target have the same vectors, as in
    the paper. An example with an empty history has zeros for it. A target in its own history reveals the label: build
    histories only from what came strictly before.

    Source: Zhou et al., "Deep Interest Evolution Network for Click-Through Rate Prediction", AAAI 2019; its AUGRU, in which an
    element that attention gives no weight changes nothing (`Gru`).

    Raises:
        OptionError: target or history is missing, names what is not a slot, or they have different numbers of fields.
    """
    network, loss = DienNetwork(options, layout), loss_of(options, layout.classes)
    seen = LayerInputs(
        network.width, lambda parameters, inputs: network.evolved(parameters, inputs).seen, search=network.search
    )
    made = deep(options, layout, network.specs, network.scores, loss, "dien", seen=seen)
    if not options.auxiliary:
        return made
    share = options.auxiliary / (1 if layout.classes else layout.outputs)
    with_booster = made.supervised
    assert with_booster is not None

    def objective(parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        evolved = network.evolved(parameters, inputs)
        scores = network.scores_of(parameters, inputs, evolved)
        losses = with_booster.losses(parameters, inputs)[0] if options.booster else loss.value(scores, inputs.label)
        further = of_examples(auxiliary_loss(evolved, inputs.random), evolved.history.owner)
        return losses + share * further[:, None], scores

    learned: Losses = objective
    return replace(made, learns=Online(with_booster._replace(objective=learned), random=True, examples_meet=True))


class DienNetwork:
    """The network of a model: its layers, and how they score a batch.

    Attributes:
        width: of what its hidden layers see.
        specs: the dense parameters.
        search: how the history is searched; None: it is not.
    """

    def __init__(self, options: DienOptions, layout: Layout) -> None:
        self._interest = Interest.of("dien", options.target, options.history, layout).searching(options, "dien")
        self.search = self._interest.search
        check_hidden(options.hidden, "hidden", "dien")
        check_attention(options.attention, "dien")
        self._layout = layout
        self._width = len(self._interest.fields) * options.dim
        names = activations_of(options.attention_activation, options.attention, "dien", "attention_activation")
        self._attention = Attention("attention", ATTENTION, self._width, options.attention, names, softmax=True)
        self._extraction = Gru("extraction", EXTRACTION, self._width, self._width)
        self._evolution = Gru("evolution", EVOLUTION, self._width, self._width)
        activations = activations_of(options.activation, options.hidden, "dien")
        self.width = num_inputs(options, layout) + 3 * self._width
        norm = options.normalise == BATCH_NORM
        self._tower = Tower(self.width, options.hidden, layout.outputs, activations, False, options.dropout, norm)
        layers = self._attention, self._tower
        self.specs = (
            *(spec for layer in layers for spec in layer.specs),
            *self._extraction.specs(),
            *self._evolution.specs(),
        )

    def scores(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return float32[batch, num_labels]."""
        return self.scores_of(parameters, inputs, self.evolved(parameters, inputs))

    def scores_of(self, parameters: Parameters, inputs: Inputs, evolved: Evolved) -> jax.Array:
        """Return the same of what histories have come to."""
        deep_part = self._tower.apply(parameters, evolved.seen, inputs.random)
        return linear_part(parameters, inputs, self._layout) + deep_part

    def evolved(self, parameters: Parameters, inputs: Inputs) -> Evolved:
        """Return what the layers see, and the interests on the way there."""
        rows = parameters["vectors"]
        target, history = self._interest.target(rows, inputs), self._interest.history(parameters, inputs)
        fields, count, length = history.rows.shape
        index, mask, owner = history.rows.reshape(fields, count * length), history.mask, history.owner
        vectors = gathered(rows, index).reshape(count, length, self._width)
        products = projected(rows, index, self._extraction.kernel(parameters)).reshape(count, length, -1)
        states = self._extraction.states(parameters, products, mask)
        elements = self._attention.of_vectors(parameters, states, mask, owner)
        weights = self._attention.weights(parameters, target, elements)
        products = of_examples(states @ self._evolution.kernel(parameters), owner)
        last = self._evolution.states(parameters, products, places_of(mask, owner), weights)[:, -1]
        total = elements._replace(vectors=vectors).total()
        seen = network_inputs(parameters, inputs, self._layout, total, target * total, last)
        return Evolved(seen, states, vectors, history)


def auxiliary_loss(evolved: Evolved, random: jax.Array | None) -> jax.Array:
    """Return the loss of distinguishing the next element from a random one, the mean of each history, float32[n].

    Args:
        random: as in Inputs; of a batch that is not learned from, None, it is 0.
    """
    mask = evolved.history.mask
    if random is None or mask.shape[1] < 2:
        return jnp.zeros(len(mask))
    drawn = drawn_elements(evolved.history, random)
    own, others = evolved.history.rows, evolved.history.rows.reshape(len(evolved.history.rows), -1)[:, drawn]
    same = (others[:, :, :, None] == own[:, :, None, :]).all(axis=0).any(axis=2)
    states, after = evolved.states[:, :-1], mask[:, :-1] & mask[:, 1:]
    following = (states * evolved.vectors[:, 1:]).sum(axis=2)
    other = evolved.vectors.reshape(-1, evolved.vectors.shape[2])[drawn[:, 1:]]
    different = (states * other).sum(axis=2)
    losses = jax.nn.softplus(-following) + jnp.where(same[:, 1:], 0, jax.nn.softplus(different))
    return jnp.where(after, losses, 0).sum(axis=1) / jnp.maximum(after.sum(axis=1), 1)


def drawn_elements(history: History, random: jax.Array) -> jax.Array:
    """Return for each place of n histories an element of them, int32[n, L], each one of an example as likely as the others.

    It is the same whether examples share histories: it depends on the first of neighbouring examples that have this history.
    """
    rows, mask, owner = history
    lengths = mask.sum(axis=1)
    first, sizes = jax.lax.iota(jnp.int32, len(mask)), jnp.ones(len(mask), jnp.int32)
    if owner is not None:
        first = jnp.searchsorted(owner, first).astype(jnp.int32)
        sizes = jnp.diff(first, append=len(owner))
    repeats = (rows[:, 1:] == rows[:, :-1]).all(axis=(0, 2)) & (mask[1:] == mask[:-1]).all(axis=1)
    first = jax.lax.cummax(jnp.where(jnp.pad(repeats, (1, 0)), 0, first))
    place = (first[:, None] * mask.shape[1] + jax.lax.iota(jnp.int32, mask.shape[1])).astype(jnp.uint32)
    bits = mixed(mixed(place ^ random[0]) + random[1] + jnp.uint32(EXTRACTION))
    there, stops = jnp.nonzero(mask.reshape(-1), size=mask.size)[0], jnp.cumsum(sizes * lengths)
    number = (bits % jnp.maximum(stops[-1], 1).astype(jnp.uint32)).astype(jnp.int32)
    if owner is None:
        return there[number]
    which = jnp.searchsorted(stops, number, side="right")
    within = (number - (stops - sizes * lengths)[which]) % jnp.maximum(lengths[which], 1)
    return there[(jnp.cumsum(lengths) - lengths)[which] + within]


DIEN = Part("dien", DienOptions, dien)
