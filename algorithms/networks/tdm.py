"""TDM: the best items of a large catalogue, found by descending a tree of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...platform.errors import OptionError, Subject
from ...platform.operators.adagrad import AdagradOptions, adagrad
from ...platform.operators.base import DenseSpec, TableSpec
from ...platform.options import Part, option
from ...platform.registry import POSITIVE
from ..base import Algorithm, Inputs, Layout, Online, Output, Parameters, Sizing, Unsupervised
from ..blocks.histories import HISTORIES
from ..layers.attention import NEVER
from ..layers.dense_layers import Layer
from ..layers.dot_attention import attended, upto
from ..layers.initial import uniform
from ..layers.lookups import gathered, taken
from ..layers.pooling import all_vectors
from ..positions import places
from ..sampled_recall import found_in
from ..trees import TreeSearch, drawn_nodes
from .interest import fields_named
from .tower import check_hidden

if TYPE_CHECKING:
    import optax

SUBJECT = Subject("USING", "tdm")
ITEM, HISTORY = SUBJECT._replace(option="item"), SUBJECT._replace(option="history")


@dataclass(frozen=True)
class TdmOptions:
    item: tuple = option(  # type: ignore[type-arg]
        ("item",), "the item and its category, which orders the tree: (item, category); or the item alone"
    )
    history: tuple[str, ...] = option(
        (), "the array of items that the user had, the newest last", role="sequence", length="length"
    )
    length: int = option(50, "elements of the history that are read, the last ones", minimum=1, maximum=10_000)
    beam: int = option(
        60,
        "nodes of a level that ML.RECOMMEND keeps; with more it finds more of the items with the best scores",
        minimum=1,
        maximum=65_536,
    )
    tree: str = option(
        "category",
        "which items are neighbours in the tree: those of a category, or those with similar histories",
        choices=("category", "vectors"),
    )
    rebuild: int = option(
        0,
        "rounds after the first one, at most: each builds the tree again, so that items with similar vectors are "
        "neighbours, and learns `passes` more; the best pass by recall on the rows of VALIDATE is kept",
        minimum=0,
        maximum=100,
    )
    negatives: int = option(
        30, "nodes of each level that an item's are contrasted with (negative samples)", minimum=1, maximum=4096
    )
    dim: int = option(32, "elements of a node's vector", minimum=1, maximum=1024)
    hidden: tuple = option((32,), "units of the hidden layers that score a node")  # type: ignore[type-arg]
    vector_learning_rate: float = option(
        0.1, "learning rate of the nodes' vectors", minimum=0, open_minimum=True, optimizer=True
    )
    learning_rate: float = option(0.001, "learning rate of the layers", minimum=0, open_minimum=True)
    init_scale: float = option(0.1, "standard deviation of new vectors", minimum=0)


def tdm(options: TdmOptions, layout: Layout) -> Algorithm:
    """Learn which nodes of a tree over the items are on the way to what a user takes next: tree-based deep model.

    Items are the leaves of a binary tree. Every node has a vector; that of a leaf belongs to its item. A row says that a
    user took an item. With LABEL, rows with 1 do, and other rows are left out. On every level of the tree, the loss
    contrasts the ancestor of the item with random nodes, which the rows of a batch share:

        score(u, n) = <q + v, n> + network(n, v, q * n, v * n)
        loss = mean over levels of log(sum over n' of exp(score(u, n'))) - score(u, n),   n' the ancestor and those drawn

    q is a layer over the slots of the user and the mean of the history. v is the history as the node sees it: its elements,
    weighted by the softmax of their inner products with the node. With WITH (share = (history AS item)) elements and leaves
    have the same vectors. ML.RECOMMEND descends the tree: on each level it takes the `beam` best nodes, then their
    children. That takes about 2 beam log2(items / beam) scores, instead of one for each item.

    Nodes are the features of a slot "(tree)". The tree is a file of the version. An item that is new to CONTINUE gets a
    leaf next to the leaves of its category, in the same tree. With `rebuild` a training has further rounds, each with
    another tree (joint training): groups of items are cut at the median of the first principal component of their vectors,
    and a node begins with the mean of the vectors of its items.

    In training, `mae` is the mean loss, and `recall` the share of rows whose item is in the best twentieth of its
    negatives. On the rows of VALIDATE, `recall` is the share of rows whose item is among the `beam` best leaves of a
    search.

    Source: Zhu et al., "Learning Tree-based Deep Model for Recommender Systems", KDD 2018. Differences: a softmax of each level
    in place of single nodes' cross entropy, and attention by inner products.

    Raises:
        OptionError: the item is not categorical, the history is missing, or a slot is unused.
    """
    item = places(options.item, layout.scalar, ITEM)
    if not 1 <= len(item) <= 2:
        raise OptionError(f"{ITEM} expects the item, or (item, category); got {options.item}.", subject=ITEM)
    net = TreeNet(options, layout, item)
    return Algorithm(
        tables=(TableSpec("vectors", options.dim, uniform(options.init_scale, options.dim)),),
        optimizer=lambda table: adagrad(AdagradOptions(learning_rate=options.vector_learning_rate), table),
        learns=Online(Unsupervised(net.objective, finds=True), examples_meet=True),
        dense=net.specs,
        dense_optimizer=net.dense_optimizer,
        outputs={"score": Output(net.leaf_scores)},
        intercept=None,
        sizing=Sizing(least_batch=256),
        items=net.search,
    )


class TreeQuery(NamedTuple):
    """The query: float32[batch, dim], and the elements of the history, float32[batch, L, dim], as they are and as keys of the
    inner products with nodes; bool[batch, L], whether an element is there."""

    user: jax.Array
    elements: jax.Array
    keys: jax.Array
    mask: jax.Array


class TreeNet:
    """The network that scores nodes, and its loss.

    Args:
        item: places of the slots of the item.

    Attributes:
        group: place of the history among those of the inputs.
        specs: the dense parameters.
    """

    def __init__(self, options: TdmOptions, layout: Layout, item: list[int]) -> None:
        groups = [name for name, _ in layout.block(HISTORIES)]
        if not options.history or "history" not in groups:
            raise OptionError(f"{HISTORY} expects an array of items, like history = (clicked_items).", subject=HISTORY)
        self.group, self._layout, self._options, self._item = groups.index("history"), layout, options, item
        fields = [place for name in options.history for place in fields_named(name, layout.block(HISTORIES)[self.group][1])]
        if len(fields) != 1:
            raise OptionError(f"{HISTORY} expects one array of items, like history = (clicked_items).", subject=HISTORY)
        check_hidden(options.hidden, "hidden", "tdm")
        several = len(layout.scalar) + len(layout.bags) + len(layout.continuous) + len(layout.vectors)
        self._own, dim = [place for place in range(several) if place not in item], options.dim
        self._user = Layer("user", 1, (len(self._own) + 1) * dim, dim, "linear")
        self._keys = Layer("keys", 2, dim, dim, "linear")
        widths = [4 * dim, *options.hidden]
        self._hidden = [Layer(f"hidden_{i}", 2 + i, widths[i - 1], widths[i], "relu") for i in range(1, len(widths))]
        self._output = Layer("output", 100, widths[-1], 1, "linear")
        layers = (self._user, self._keys, *self._hidden, self._output)
        no_use = ("keys.bias", "output.bias")  # which move all elements, and all nodes, alike
        self.specs: tuple[DenseSpec, ...] = tuple(s for layer in layers for s in layer.specs() if s.name not in no_use)

    @property
    def search(self) -> TreeSearch:
        """How items are found."""
        options, layout, item = self._options, self._layout, self._item
        return TreeSearch(
            layout.scalar[item[0]],
            layout.scalar[item[1]] if len(item) == 2 else None,
            options.history[0] if options.tree == "vectors" else None,
            "vectors",
            options.negatives,
            options.beam,
            options.rebuild,
            self.asked,
            self.scores,
            tuple(slot for place, slot in enumerate(layout.slots) if place not in item),
        )

    def dense_optimizer(self) -> optax.GradientTransformation:
        """Return the optimizer of layers."""
        import optax  # costs 0.2 s, which algorithms without layers need not pay

        return optax.adam(self._options.learning_rate)

    def leaf_scores(self, parameters: Parameters, inputs: Inputs) -> jax.Array:
        """Return the score of each example's item, float32[batch]."""
        leaves = gathered(parameters["vectors"], inputs.scalar[self._item[0]][None])
        return self.scores(parameters, self.asked(parameters, inputs), leaves)[:, 0]

    def objective(self, parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
        """Return the loss of each example, and beside it whether its item is found among the others; see tdm."""
        rows, leaf, histories = parameters["vectors"], inputs.scalar[self._item[0]], inputs.block(HISTORIES)
        order = jnp.argsort(upto(histories[self.group].mask))  # blocks of examples have histories of like lengths
        asked = jax.tree.map(lambda values: values[order], self.asked(parameters, inputs))
        if len(histories) == len(self._layout.block(HISTORIES)):  # no tree: the leaf is contrasted with the batch's leaves
            own, others, counts, of_level = leaf[:, None], leaf, [len(leaf)], np.array([len(leaf)])
            there = inputs.weight > 0
        else:
            own = jnp.concatenate([histories[-1].rows[0], leaf[:, None]], axis=1)
            counts = drawn_nodes(own.shape[1], self._options.negatives)
            others, there = inputs.sampled, jnp.ones(sum(counts), bool)
            of_level = 2.0 ** np.arange(1, len(counts) + 1)
        own, level, last = own[order], np.repeat(np.arange(len(counts)), counts), len(counts) - 1
        wanted = self.scores(parameters, asked, gathered(rows, own.T))
        raw = self.scores(parameters, asked, taken(rows, others))
        usable = there[None] & (others[None] != own[:, level])
        found = jnp.where(usable, raw + jnp.log(of_level / np.array(counts))[level], NEVER)
        losses, start = jnp.zeros(len(leaf)), 0
        for number, count in enumerate(counts):
            every = jnp.concatenate([wanted[:, number : number + 1], found[:, start : start + count]], axis=1)
            losses += jax.nn.logsumexp(every, axis=1) - every[:, 0]
            start += count
        losses = losses / len(counts)
        leaves = slice(sum(counts[:last]), None)
        back = jnp.argsort(order)
        both = jnp.stack([losses, found_in(raw[:, leaves], wanted[:, last], usable[:, leaves])], axis=1)[back]
        return both[:, :1], both

    def asked(self, parameters: Parameters, inputs: Inputs) -> TreeQuery:
        """Return what scores need of the user."""
        rows, history = parameters["vectors"], inputs.block(HISTORIES)[self.group]
        elements = gathered(rows, history.rows[0].T)
        mean = elements.sum(axis=1) / jnp.maximum(history.mask.sum(axis=1, keepdims=True), 1)
        seen = [mean]
        if self._own:
            own = all_vectors(rows, inputs, self._layout, "root")[:, jnp.array(self._own)]
            seen.append(own.reshape(mean.shape[0], -1))
        user = self._user.apply(parameters, jnp.concatenate(seen, axis=1), None)
        return TreeQuery(user, elements, elements @ parameters["keys.kernel"], history.mask)

    def scores(self, parameters: Parameters, asked: TreeQuery, nodes: jax.Array) -> jax.Array:
        """Return float32[batch, m]; see TreeSearch."""
        seen, user = attended(asked.elements, asked.keys, asked.mask, nodes), asked.user[:, None]
        first = (*self._hidden, self._output)[0]
        of_node, of_seen, of_user, of_both = jnp.split(parameters[f"{first.name}.kernel"], 4)
        if nodes.ndim == 3:
            x = seen @ of_seen + (user * nodes) @ of_user + (seen * nodes) @ of_both
            product = ((user + seen) * nodes).sum(axis=2)
        else:  # a matrix of each node, which all examples share, in place of products of each example with each node
            by_node, each = seen.transpose(1, 0, 2), nodes[:, :, None]
            x = by_node @ (of_seen + each * of_both) + jnp.einsum("bd,mdh->mbh", asked.user, each * of_user)
            x, product = x.transpose(1, 0, 2), (by_node @ each)[:, :, 0].T + asked.user @ nodes.T
        x += nodes @ of_node
        if self._hidden:
            x = jax.nn.relu(x + parameters[f"{first.name}.bias"])
            for layer in self._hidden[1:]:
                x = layer.apply(parameters, x, None)
            x = x @ parameters["output.kernel"]
        return x[:, :, 0] + product


TDM = Part("tdm", TdmOptions, tdm, POSITIVE)
