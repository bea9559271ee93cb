"""The tree of a model's items: planted by the first training's rows, grown by later ones'."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ....algorithms.blocks.histories import HISTORIES, Histories
from ....algorithms.chunk import Chunk, Keys
from ....algorithms.trees import TreeSearch
from ....warehouse.package import read_tree, write_tree
from ...errors import DataError
from ...input.encode import encode
from ...input.splits import chunk_rows
from ...trees.tree import Tree, by_category, by_vectors, grown, planted, signs, unit
from ..row_files.columns import values

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.version import Version
    from ..prepared import Prepared

ROWS, DIM = 4096, 64
SAMPLE_ROWS = 1 << 15
Floats = NDArray[np.float32]


def with_tree(prepared: Prepared, draft: Draft) -> Prepared:
    """Return a training with the tree of its items, which is written beside the version; itself where its algorithm has none.

    It is a function of the rows and of the version that is continued, so that RESUME finds the same.

    Raises:
        DataError: no row has an item, or a file cannot be read.
    """
    search = prepared.recipe.algorithm.tree
    if search is None:
        return prepared
    tree = tree_from(prepared, search)
    if tree is None:
        raise DataError(f"No row has an item: {search.item} is NULL in all of them.")
    write_tree(draft.tree, tree.stored)
    return dataclasses.replace(prepared, tree=tree)


def with_tree_of_sample(prepared: Prepared) -> Prepared:
    """Return a training with a tree of the items of its first rows, where its algorithm has one, and they have an item."""
    search = prepared.recipe.algorithm.tree
    return prepared if search is None else dataclasses.replace(prepared, tree=tree_from(prepared, search, SAMPLE_ROWS))


def tree_from(prepared: Prepared, search: TreeSearch, most: int | None = None) -> Tree | None:
    """Return the tree of the items of a training's rows, the first `most` or all; None where they have no item."""
    keys, categories, contexts = items_of(prepared, search, prepared.parent is None, most)
    if prepared.parent is not None:
        before = tree_of(prepared.parent)
        new = before.find(keys) < 0
        return grown(before, keys[new], categories[new])
    if not len(keys):
        return None
    return planted(keys, categories, by_category(keys, categories) if contexts is None else by_vectors(contexts))


def tree_of(version: Version) -> Tree:
    """Read the tree of a version.

    Raises:
        ModelError: it is damaged.
    """
    keys, categories, codes = read_tree(version.stored("tree")[0])
    depth = int(np.log2(codes[0] + 1))
    return Tree(keys, categories, codes - (2**depth - 1), depth)


def leaf_vectors(version: Version, table: str, keys: Keys) -> Floats:
    """Return the vectors that a version has of items, float32[items, dim], zeros where it has none.

    Args:
        keys: of the items, ascending.
    """
    found = np.zeros((len(keys), version.manifest.table(table).columns["w"]), np.float32)
    for batch in version.rows(table, ["key", "w"]):
        own, vectors = batch["key"].to_numpy().view(np.uint64), values(batch["w"])
        at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
        there = keys[at] == own
        found[at[there]] = vectors.reshape(len(own), -1)[there]
    return found


def items_of(prepared: Prepared, search: TreeSearch, first: bool, most: int | None) -> tuple[Keys, Keys, Floats | None]:
    """Return the keys of the items of a training's rows, the first `most` or all, ascending, and of the category that each is
    first seen with; for a first tree by vectors also the items' vectors, float32[items, 64]: the means of the random vectors
    of earlier items.

    Source: Kanerva et al., "Random Indexing of Text Samples for Latent Semantic Analysis", CogSci 2000.
    """
    named = [name for name in (search.item, search.category) if name is not None]
    history = search.history if first else None
    slots = tuple(slot for slot in prepared.columns.slots if slot.name in (*named, history))
    columns = prepared.columns.only(tuple(slot.name for slot in slots))
    lines, found = [columns.layout.scalar.index(name) for name in named], Items()
    tables = (table for split in prepared.splits for table in prepared.scan.read(split, columns.inputs, chunk_rows(ROWS)))
    rows = 0
    for table in tables:
        if table.num_rows:
            found.add(encode(table, columns, with_labels=False), lines)
        rows += table.num_rows
        if most is not None and rows >= most:
            break
    items = None if prepared.taking is None else prepared.taking.items
    own = columns.only(named)
    if items is not None and {name.lower() for name in own.inputs} <= {name.lower() for name in items.schema.names}:
        items.using(lambda items: found.add(encode(items.rows(own.inputs), own, with_labels=False), lines))
    return found.keys, found.categories, found.vectors() if history is not None else None


class Items:
    """The items of the rows that were added: their keys, ascending, the keys of their categories, sums of earlier items."""

    def __init__(self) -> None:
        self.keys, self.categories = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self._sums = np.empty((0, DIM), np.float32)

    def add(self, chunk: Chunk, lines: Sequence[int]) -> None:
        """Add rows.

        Args:
            lines: of the item, and of its category where there is one.
        """
        own = chunk.scalar[lines[0]]
        codes, first = np.unique(own, return_index=True)
        first, codes = first[codes >= 0], codes[codes >= 0]
        of = chunk.scalar[lines[-1]][first] if len(lines) > 1 else np.full(len(first), -1)
        categories = np.where(of >= 0, chunk.keys[of], np.uint64(0)) if len(chunk.keys) else np.empty(0, np.uint64)
        every = np.concatenate([self.keys, chunk.keys[codes]])
        keys, at, inverse = np.unique(every, return_index=True, return_inverse=True)
        sums = np.zeros((len(keys), DIM), np.float32)
        sums[inverse[: len(self.keys)]] = self._sums
        if chunk.block(HISTORIES):
            rows = np.flatnonzero(own >= 0)
            np.add.at(sums, inverse[len(self.keys) :][np.searchsorted(codes, own[rows])], contexts(chunk)[rows])
        self.categories = np.concatenate([self.categories, categories])[at]
        self.keys, self._sums = keys, sums

    def vectors(self) -> Floats:
        """Return what was had before each item, less the mean of all, of length 1."""
        centred = unit(self._sums)
        return unit(centred - centred.mean(axis=0))


def contexts(chunk: Chunk) -> Floats:
    """Return the mean of the random vectors of each row's history, float32[rows, 64], over the root of its length."""
    history: Histories = chunk.block(HISTORIES)[0]
    lengths = np.diff(history.offsets)
    there = history.codes[0] >= 0
    sums, own = np.zeros((len(lengths), DIM), np.float32), signs(chunk.keys)
    for start in range(0, len(lengths), ROWS):
        stop = min(start + ROWS, len(lengths))
        some = start + np.flatnonzero(lengths[start:stop])
        if len(some):
            part = slice(history.offsets[start], history.offsets[stop])
            vectors = own[history.codes[0][part]] * there[part, None]
            sums[some] = np.add.reduceat(vectors, history.offsets[some] - history.offsets[start])
    return sums / np.sqrt(np.maximum(lengths, 1)).astype(np.float32)[:, None]
