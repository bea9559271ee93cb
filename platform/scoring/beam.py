"""Beam search: the best leaves of a tree of items, found level by level from the nodes that scored best before."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.base import Algorithm
from ...algorithms.trees import TreeSearch
from ..input.columns import columns_from
from ..input.vocabulary import keys_of
from ..training.online.planting import tree_of
from ..trees.tree import Tree, node_keys
from .best import Best, ExcludedItems
from .by_algorithm import AlgorithmScorer
from .scorer import beside

if TYPE_CHECKING:
    from ...warehouse.version import Version

ROWS = 128
KEPT = 32


class Beam:
    """Ranks the items of a tree for rows of a query; see Crossed.

    Args:
        items: what the model reads of items, under its names; items in no leaf are not found.
        beam: nodes of a level that are kept; None: as many as the model's option says, or as items are asked for.

    Attributes:
        rows: how many to rank for at once.
        scored: nodes that were scored for each row.
        unknown: how many of the items are in no leaf.
    """

    def __init__(
        self, version: Version, scorer: AlgorithmScorer, algorithm: Algorithm, items: pa.Table, beam: int | None = None
    ) -> None:
        assert algorithm.tree is not None
        self._search, self._scorer, self._items, self._beam = algorithm.tree, scorer, items, beam
        self.rows, self.scored = ROWS, 0
        tree, columns = tree_of(version), columns_from(version.manifest)
        slot = next(slot for slot in columns.slots if slot.name == self._search.item)
        places = tree.find(keys_of(items.column(slot.column).combine_chunks(), slot))
        self.unknown = int((places < 0).sum())
        self._item_of = np.full(2**tree.depth, -1)
        self._item_of[places[places >= 0]] = np.flatnonzero(places >= 0)
        self._depth = tree.depth
        self._vectors, self._there = self._nodes(tree, places[places >= 0])

    def best(self, rows: pa.Table, k: int, had: ExcludedItems) -> Best:
        """Return the k best items of each row among those that the beam reaches; see Best.

        Args:
            rows: what the model reads of them, under its names.
        """
        found, n = Best(len(rows), k), len(self._items)
        theirs = beside(rows, np.arange(len(rows)), self._items, np.zeros(len(rows), np.int64))
        start, taken = 0, np.sort(had.rows * n + had.places)
        for asked, dense, examples in self._scorer.computed(theirs, self._search.asked):
            scores, leaves = self._descend(dense, asked, max(self._beam or self._search.beam, k))
            scores, places = scores[:examples], self._item_of[leaves[:examples]]
            pairs = (np.arange(start, start + examples) * n)[:, None] + places
            at = np.minimum(np.searchsorted(taken, pairs), max(len(taken) - 1, 0))
            left_out = (places < 0) | (taken[at] == pairs if len(taken) else False)
            scores = np.where(left_out, -np.inf, scores)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            width = order.shape[1]
            found.scores[start : start + examples, :width] = np.take_along_axis(scores, order, axis=1)
            found.places[start : start + examples, :width] = np.take_along_axis(places, order, axis=1)
            start += examples
        return found

    def _nodes(self, tree: Tree, wanted: NDArray[np.int64]) -> tuple[jax.Array, jax.Array]:
        """Return the vectors of all nodes, in the order of their numbers, and whether there are items below each that may be
        found, whose places are given."""
        inner = 2**tree.depth - 1
        there = np.zeros(2 * inner + 1, bool)
        there[inner + wanted] = True
        for level in range(tree.depth - 1, -1, -1):
            first = 2**level - 1
            there[first : 2 * first + 1] = there[2 * first + 1 : 4 * first + 3].reshape(-1, 2).any(axis=1)
        above = np.flatnonzero(there[:inner])
        rows = self._scorer.rows(np.concatenate([node_keys(above), tree.keys]), self._search.table)
        vectors = np.zeros((2 * inner + 1, rows.shape[1]), np.float32)
        vectors[np.concatenate([above, tree.codes])] = rows
        return jnp.asarray(vectors), jnp.asarray(there)

    def _descend(self, dense: Any, asked: Any, beam: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the scores and places of the leaves that a beam ends in."""
        level = min(int(np.log2(beam)), self._depth)
        rows, self.scored = len(jax.tree.leaves(asked)[0]), 0
        nodes = jnp.broadcast_to(jnp.arange(2**level - 1, 2 ** (level + 1) - 1), (rows, 2**level))
        while True:
            scores = node_scores(self._search, dense, asked, self._vectors, self._there, nodes)
            self.scored += nodes.shape[1]
            if level == self._depth:
                return np.array(scores), np.asarray(nodes) - (2**self._depth - 1)
            nodes, level = children(scores, nodes, min(beam, nodes.shape[1])), level + 1


@functools.partial(jax.jit, static_argnames="search")
def node_scores(
    search: TreeSearch, dense: Any, asked: Any, vectors: jax.Array, there: jax.Array, nodes: jax.Array
) -> jax.Array:
    """Return the scores of nodes int32[batch, m]; -inf of those without items."""
    return jnp.where(there[nodes], search.scores(dense, asked, vectors[nodes]), -jnp.inf)


@functools.partial(jax.jit, static_argnames="beam")
def children(scores: jax.Array, nodes: jax.Array, beam: int) -> jax.Array:
    """Return the children of the best nodes, int32[batch, 2 beam]."""
    _, at = jax.lax.top_k(scores, beam)
    left = 2 * jnp.take_along_axis(nodes, at, axis=1) + 1
    return jnp.concatenate([left, left + 1], axis=1)
