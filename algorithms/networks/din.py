"""DIN: a network that sees, of a user's history, what matters for the target of the example."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from ...platform.options import Part, option
from ..base import Algorithm, Inputs, Layout, Parameters
from ..layers.attention import Attention
from ..layers.product_attention import ProductAttention
from ..layers.stacked import Stacked
from ..losses import loss_of
from .deep import LayerInputs, deep, linear_part, network_inputs, num_inputs
from .interest import ATTENTION, Interest, InterestOptions, check_attention
from .sides import SideOptions, SideTowers
from .tower import BATCH_NORM, Tower, activations_of, check_hidden


@dataclass(frozen=True)
class DinOptions(SideOptions, InterestOptions):
    """Options of din."""

    softmax: bool = option(True, "attention's weights add up to 1; false, as in the paper, keeps the strength of an interest")
    attends: str = option(
        "network",
        "what weighs an element: a network of it and the target, or their inner product, which takes a small part of the time",
        choices=("network", "product"),
    )


def din(options: DinOptions, layout: Layout) -> Algorithm:
    """Learn a network over the slots and the parts of a history that matter for the target: Deep Interest Network.

        score = linear part + network(slots, sum of history, target * sum of history, sum of weight_i(target) history_i)

    The weights come from a small network of target and element (`Attention`), or with attends = 'product' from their inner
    product, <target W_q, element W_k> / sqrt(width). Of a long history that is searched, attention sees `top` elements and the
    last `recent` ones. Other slots are as in xnn. With WITH (share = (clicked_items AS item)) elements and target have the
    same vectors, as in the paper. FTRL learns the linear weights, AdaGrad the vectors, Adam the layers. An example with an
    empty history has zeros for it. A target in its own history reveals the label: build histories only from what came
    strictly before.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018.

    Raises:
        OptionError: target or history is missing, names what is not a slot, or they have different numbers of fields.
    """
    network = DinNetwork(options, layout)
    seen = LayerInputs(network.width, network.inputs, network.sides.user, network.sides.specs, network.search)
    return deep(options, layout, network.specs, network.scores, loss_of(options, layout.classes), "din", seen=seen)


class DinNetwork:
    """The network of a model: its layers, and how they score a batch.

    Attributes:
        width: of what its hidden layers see.
        sides: the towers below them.
        specs: the dense parameters, but for those of `sides`.
        search: how the history is searched; None: it is not.
    """

    def __init__(self, options: DinOptions, layout: Layout) -> None:
        interest = Interest.of("din", options.target, options.history, layout)
        check_hidden(options.hidden, "hidden", "din")
        check_attention(options.attention, "din")
        width = len(interest.fields) * options.dim
        names = activations_of(options.attention_activation, options.attention, "din", "attention_activation")
        self._attention: Attention | ProductAttention
        if options.attends == "product":
            products = ProductAttention("attention", width, options.softmax)
            self._attention, interest = products, interest.searching(options, "din", products.query)
        else:
            self._attention = Attention("attention", ATTENTION, width, options.attention, names, options.softmax)
            interest = interest.searching(options, "din")
        self._layout, self._interest, self.search = layout, interest, interest.search
        activations = activations_of(options.activation, options.hidden, "din")
        self.sides = SideTowers(options, layout, num_inputs(options, layout) + 3 * width, options.dim, "din")
        self.width = self.sides.width
        norm = options.normalise == BATCH_NORM
        self._tower = Tower(self.width, options.hidden, layout.outputs, activations, False, options.dropout, norm)
        self.specs = (*self._attention.specs, *self._tower.specs)

    def scores(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return float32[batch, num_labels]."""
        deep_part = self._tower.apply(parameters, self.inputs(parameters, inputs), inputs.random)
        return linear_part(parameters, inputs, self._layout) + deep_part

    def inputs(self, parameters: Parameters, inputs: Inputs) -> Stacked:
        """Return what the layers see: the slots, and what attention makes of the history."""
        rows = parameters["vectors"]
        target = self._interest.target(rows, inputs)
        elements = self._attention.of_rows(parameters, rows, self._interest.history(parameters, inputs))
        total = elements.total()
        seen = [total, target * total, self._attention.pooled(parameters, target, elements)]
        return self.sides.apply(parameters, network_inputs(parameters, inputs, self._layout, *seen))


DIN = Part("din", DinOptions, din)
