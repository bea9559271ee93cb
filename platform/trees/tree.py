"""A tree of items beside a model, and the nodes that its examples are learned with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.augment import Augment, Draw, Prepare
from ...algorithms.blocks.histories import HISTORIES, Histories
from ...algorithms.chunk import ABSENT, Chunk, Codes, Keys
from ...algorithms.inputs import Layout
from ...algorithms.trees import TreeSearch, drawn_nodes
from ..ps.keys import feature_keys

POWER_STEPS = 8
SMALLEST = 1e-12
Places = NDArray[np.int64]

TREE, TREE_NUMBER = "(tree)", 0xFFFE
"""The slot of nodes above the leaves, and its number, which is that before the intercept's."""

POOL = 4096
"""How many items' ancestors are sampled from for the batches of a chunk."""


class NodeRows(NamedTuple):
    """Rows that nodes above the leaves begin with, in place of the continued version's.

    Attributes:
        table: of the rows.
        keys: uint64[n]; vectors: float32[n, dim].
    """

    table: str
    keys: Keys
    vectors: NDArray[np.float32]


class Tree(NamedTuple):
    """A binary tree whose leaves, of one level, are items; see algorithms.trees.

    Attributes:
        keys: uint64[items] of the items, ascending.
        categories: uint64[items], keys of their categories, 0 where they have none.
        places: int64[items], which of the 2^depth places of the last level each has.
        depth: its levels below the root.
        nodes: of a tree that was made anew by what was learned, what its nodes begin with; else None.
    """

    keys: Keys
    categories: Keys
    places: Places
    depth: int
    nodes: NodeRows | None = None

    def find(self, keys: Keys) -> Places:
        """Return the places of items, -1 for those that are in no leaf."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found: Places = np.where(self.keys[at] == keys, self.places[at], -1)
        return found

    @property
    def codes(self) -> Places:
        """The numbers of the leaves, as in a heap."""
        found: Places = self.places + (2**self.depth - 1)
        return found

    @property
    def stored(self) -> tuple[Keys, Keys, Places]:
        """Keys, categories and codes, as a version keeps them."""
        return self.keys, self.categories, self.codes

    def ancestors(self, places: Places) -> Places:
        """Return the ancestors of leaves between root and leaf, int64[n, depth - 1], as numbers in a heap."""
        levels = np.arange(1, self.depth)
        found: Places = ((places[:, None] >> (self.depth - levels)) + 2**levels - 1).astype(np.int64)
        return found


def node_keys(codes: Places) -> Keys:
    """Return the keys of nodes above the leaves."""
    return feature_keys(TREE, pa.array(codes, pa.int64()))


@dataclass(frozen=True)
class TreeNodes(Augment):
    """Gives examples the ancestors of their items, as the last of their histories, and batches the sampled (negative) nodes,
    level by level, as `Inputs.sampled`. An example whose item is in no leaf weighs nothing.
    """

    search: TreeSearch
    tree: Tree

    def prepare(self, chunk: Chunk, layout: Layout, draw: Draw) -> Prepare:
        """See Augment."""
        tree, size = self.tree, self.tree.depth - 1
        item = chunk.scalar[layout.scalar.index(self.search.item)]
        places = np.append(tree.find(chunk.keys), -1)[item]  # of ABSENT the last one
        known = places >= 0
        nodes = tree.ancestors(np.maximum(places, 0))
        seed = draw.seed, draw.pass_number, draw.batch, int(np.bitwise_xor.reduce(chunk.keys)), len(places)
        pool = np.random.default_rng(seed).choice(len(tree.keys), min(POOL, len(tree.keys)), replace=False)
        above = np.unique(
            np.concatenate([nodes.ravel(), *all_nodes(tree, self.search.negatives), tree.ancestors(tree.places[pool]).ravel()])
        )
        number = next((int(slot) for slot in chunk.slots[item[known][:1]]), 0)
        slots = np.repeat(np.array([TREE_NUMBER, number], np.uint16), [len(above), len(pool)])
        further, codes = chunk.with_features(np.concatenate([node_keys(above), tree.keys[pool]]), slots)
        of_pool = codes[len(above) :]
        histories = np.where(known[:, None], codes[np.searchsorted(above, nodes)], ABSENT).astype(np.int32)
        sampler = NodeSampler(self, above, codes[: len(above)], of_pool, pool, seed)

        def prepared(piece: Chunk, start: int, stop: int) -> Chunk:
            group = Histories(histories[start:stop].reshape(1, -1), np.arange(stop - start + 1) * size, size)
            weight = np.where(known[start:stop], piece.weight, np.float32(0))
            own: dict[str, Any] = {"keys": further.keys, "slots": further.slots, "sides": further.sides}
            own |= {"weight": weight, "drawn": sampler.draw}
            return piece._replace(**own).having(HISTORIES, (*piece.block(HISTORIES), group))

        return prepared


class NodeSampler:
    """Draws the nodes of batches: a function of the seed, the pass, what the chunk holds, and the batch's number."""

    def __init__(
        self, nodes: TreeNodes, above: Places, codes: Codes, of_pool: Codes, pool: NDArray[np.int64], seed: tuple[int, ...]
    ) -> None:
        tree, self._seed = nodes.tree, seed
        ancestors = codes[np.searchsorted(above, tree.ancestors(tree.places[pool]))]
        levels = np.concatenate([ancestors, of_pool[:, None]], axis=1)
        counts = drawn_nodes(tree.depth, nodes.search.negatives)
        self._levels: list[tuple[Codes, int]] = []
        for level, count in enumerate(counts, 1):
            every = level < tree.depth and count == 2**level
            own = codes[np.searchsorted(above, np.arange(2**level) + 2**level - 1)] if every else levels[:, level - 1]
            self._levels.append((own.astype(np.int32), 0 if every else count))

    def draw(self, pass_number: int, batch: int) -> Codes:
        """Return the codes of a batch's nodes, int32[sum of drawn_nodes]."""
        random = np.random.default_rng((*self._seed, pass_number, batch))
        return np.concatenate([random.choice(own, count) if count else own for own, count in self._levels])


def all_nodes(tree: Tree, negatives: int) -> list[Places]:
    """Return the nodes of the levels that are drawn whole."""
    return [np.arange(2**level) + 2**level - 1 for level in range(1, tree.depth) if 2**level <= negatives]


def planted(keys: Keys, categories: Keys, order: NDArray[np.intp]) -> Tree:
    """Return a tree of items that has room for a fifth more.

    Args:
        keys: ascending; categories: of each.
        order: of the items in the leaves, evenly spread.
    """
    depth = max(2, int(np.ceil(np.log2(max(1.2 * len(keys), 1)))))
    places = np.empty(len(keys), np.int64)
    places[order] = np.arange(len(keys)) * 2**depth // max(len(keys), 1)
    return Tree(keys, categories, places, depth)


def by_category(keys: Keys, categories: Keys) -> NDArray[np.intp]:
    """Return items in the order of their categories, within one in that of their keys, which are hashes."""
    return np.lexsort((keys, categories))


def by_vectors(vectors: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return items in an order in which each half, quarter, ... holds what is alike: a group is cut at the median of its first
    principal component, all groups of a level at once.

    Source: Boley, "Principal Direction Divisive Partitioning", Data Mining and Knowledge Discovery 1998; here cuts are at the
    median.

    Args:
        vectors: float32[items, dim].
    """
    order, n = np.arange(len(vectors)), len(vectors)
    x: NDArray[Any]
    for level in range(max(0, int(np.ceil(np.log2(max(n, 1)))) - 1)):
        starts = np.unique(np.arange(2**level) * n // 2**level)
        sizes = np.diff(np.append(starts, n))
        group, x = np.repeat(np.arange(len(starts)), sizes), vectors[order]
        x = x - (np.add.reduceat(x, starts) / sizes[:, None])[group]
        direction = x[starts + sizes // 2]
        for _ in range(POWER_STEPS):
            along = np.einsum("nd,nd->n", x, direction[group])
            direction = np.add.reduceat(x * along[:, None], starts)
            direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), SMALLEST)
        order = order[np.lexsort((np.einsum("nd,nd->n", x, direction[group]), group))]
    return order


def replanted(tree: Tree, table: str, vectors: NDArray[np.float32]) -> Tree:
    """Return a tree of the same items in which those with alike vectors stand together; a node begins with the mean of the
    vectors of its items.

    Args:
        table: of the vectors.
        vectors: float32[items, dim]; zeros of an item that has none, which stands with its category.
    """
    known: NDArray[np.bool_] = np.asarray(vectors.any(axis=1))
    _, category = np.unique(tree.categories, return_inverse=True)
    sums = np.zeros((category.max() + 1, vectors.shape[1]), np.float32)
    np.add.at(sums, category[known], vectors[known])
    counts = np.maximum(np.bincount(category[known], minlength=len(sums)), 1)
    vectors = np.where(known[:, None], vectors, (sums / counts[:, None].astype(np.float32))[category])
    made = planted(tree.keys, tree.categories, by_vectors(unit(vectors - vectors.mean(axis=0))))
    return made._replace(nodes=NodeRows(table, *means(made, vectors)))


def means(tree: Tree, vectors: NDArray[np.float32]) -> tuple[Keys, NDArray[np.float32]]:
    """Return the keys of the nodes between root and leaves that have items, and the mean of the vectors of these."""
    sums = np.zeros((2**tree.depth, vectors.shape[1] + 1), np.float32)
    sums[tree.places, :-1], sums[tree.places, -1] = vectors, 1
    keys, found = [], []
    for level in range(tree.depth - 1, 0, -1):
        sums = sums[0::2] + sums[1::2]
        there = np.flatnonzero(sums[:, -1])
        keys.append(node_keys(there + 2**level - 1))
        found.append(sums[there, :-1] / sums[there, -1:])
    return np.concatenate(keys), np.concatenate(found)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors of length 1, zeros for zeros."""
    found: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(SMALLEST))
    return found


def signs(keys: Keys) -> NDArray[np.float32]:
    """Return the bits of keys, which are hashes, as signs: vectors float32[n, 64] that are nearly orthogonal to each other."""
    bits = np.unpackbits(keys.view(np.uint8).reshape(-1, 8), axis=1)
    found: NDArray[np.float32] = bits.astype(np.float32) * 2 - 1
    return found


def grown(tree: Tree, keys: Keys, categories: Keys) -> Tree:
    """Return a tree with more items, each in the free place next to the middle of its category; existing items keep their path,
    one level longer where room is short.

    Args:
        keys: ascending, none of them in the tree.
    """
    if not len(keys):
        return tree
    while 2**tree.depth < len(tree.keys) + len(keys):
        tree = tree._replace(places=tree.places * 2, depth=tree.depth + 1)
    order = np.lexsort((tree.places, tree.categories))
    names, first, counts = np.unique(tree.categories[order], return_index=True, return_counts=True)
    middle = tree.places[order[first + counts // 2]]
    at = np.minimum(np.searchsorted(names, categories), max(len(names) - 1, 0))
    anywhere = (keys >> np.uint64(64 - tree.depth)).astype(np.int64)
    wanted = np.where(names[at] == categories, middle[at], anywhere) if len(names) else anywhere
    free = np.setdiff1d(np.arange(2**tree.depth), tree.places)
    rank = np.argsort(wanted, kind="stable")
    steps = np.arange(len(keys))
    chosen = np.maximum.accumulate(np.searchsorted(free, wanted[rank]) - steps) + steps
    chosen = np.minimum(chosen, len(free) - len(keys) + steps)
    places = np.empty(len(keys), np.int64)
    places[rank] = free[chosen]
    every, of_all = np.concatenate([tree.keys, keys]), np.concatenate([tree.categories, categories])
    sort = np.argsort(every)
    return Tree(every[sort], of_all[sort], np.concatenate([tree.places, places])[sort], tree.depth)
