"""ML.RECOMMEND of a model with a tree of items: the best ones that a beam search reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...algorithms.base import Algorithm
from ..input.columns import columns_from
from ..input.vocabulary import keys_of
from ..training.online.planting import tree_of
from ..trees.descent import Descent
from .by_algorithm import AlgorithmScorer
from .rows import beside
from .top_k import Best, ExcludedItems

if TYPE_CHECKING:
    from ...warehouse.version import Version

ROWS = 128


class Beam:
    """Ranks the items of a tree for rows of a query; see Crossed.

    Args:
        items: what the model reads of items, under its names; items in no leaf are not found.
        beam: nodes of a level that are kept; None: as many as the model's option says, or as items are asked for.

    Attributes:
        rows: how many to rank for at once.
        unknown: how many of the items are in no leaf.
    """

    def __init__(
        self, version: Version, scorer: AlgorithmScorer, algorithm: Algorithm, items: pa.Table, beam: int | None = None
    ) -> None:
        search = algorithm.tree
        assert search is not None
        self._search, self._scorer, self._items, self._beam = search, scorer, items, beam
        self.rows = ROWS
        tree, columns = tree_of(version), columns_from(version.manifest)
        slot = next(slot for slot in columns.slots if slot.name == self._search.item)
        places = tree.find(keys_of(items.column(slot.column).combine_chunks(), slot))
        self.unknown = int((places < 0).sum())
        self._item_of = np.full(2**tree.depth, -1)
        self._item_of[places[places >= 0]] = np.flatnonzero(places >= 0)
        self._descent = Descent(search, tree, places[places >= 0], lambda keys: scorer.rows(keys, search.table))

    @property
    def scored(self) -> int:
        """How many nodes were scored for each row."""
        return self._descent.scored

    def best(self, rows: pa.Table, k: int, had: ExcludedItems) -> Best:
        """Return the k best items of each row among those that the beam reaches; see Best.

        Args:
            rows: what the model reads of them, under its names.
        """
        found, n = Best(len(rows), k), len(self._items)
        theirs = beside(rows, np.arange(len(rows)), self._items, np.zeros(len(rows), np.int64))
        start, taken = 0, np.sort(had.rows * n + had.places)
        for asked, dense, examples in self._scorer.computed(theirs, self._search.asked):
            scores, leaves = self._descent.leaves(dense, asked, max(self._beam or self._search.beam, k))
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
