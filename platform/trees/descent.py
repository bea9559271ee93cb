"""Beam search: the best leaves of a tree of items, found level by level from the nodes that scored best before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...algorithms.chunk import Keys
from ...algorithms.trees import TreeSearch
from .tree import Places, Tree, node_keys

Floats = NDArray[np.float32]


class Descent:
    """A tree, to be descended with the rows of its nodes.

    Args:
        wanted: the places of the items that may be found.
        rows: returns the rows of distinct keys, float32[n, dim].

    Attributes:
        scored: nodes that were scored for each example.
    """

    def __init__(self, search: TreeSearch, tree: Tree, wanted: Places, rows: Callable[[Keys], Floats]) -> None:
        self._search, self._depth, self.scored = search, tree.depth, 0
        inner = 2**tree.depth - 1
        there = np.zeros(2 * inner + 1, bool)
        there[inner + wanted] = True
        for level in range(tree.depth - 1, -1, -1):
            first = 2**level - 1
            there[first : 2 * first + 1] = there[2 * first + 1 : 4 * first + 3].reshape(-1, 2).any(axis=1)
        above = np.flatnonzero(there[:inner])
        found = rows(np.concatenate([node_keys(above), tree.keys]))
        vectors = np.zeros((2 * inner + 1, found.shape[1]), np.float32)
        vectors[np.concatenate([above, tree.codes])] = found
        self._vectors, self._there = jnp.asarray(vectors), jnp.asarray(there)

    def leaves(self, dense: Any, asked: Any, beam: int) -> tuple[Floats, Places]:
        """Return the scores and places of the leaves that a beam ends in, of each example; -inf of those without items.

        Args:
            dense: the dense parameters.
            asked: what scores need of the user; see TreeSearch.
            beam: nodes of a level that are kept.
        """
        level = min(int(np.log2(beam)), self._depth)
        examples, self.scored = len(jax.tree.leaves(asked)[0]), 0
        nodes = jnp.broadcast_to(jnp.arange(2**level - 1, 2 ** (level + 1) - 1), (examples, 2**level))
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
