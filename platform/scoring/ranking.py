"""Ranking (retrieval) of all items for the rows of a query, for ML.RECOMMEND and ML.EVALUATE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ...algorithms.base import Algorithm, Match
from ..cores import cores
from ..engines.base import Engine
from ..errors import StatementError
from ..input.columns import columns_from
from ..training.clauses.transform import TRANSFORM
from ..training.compiled import share_work
from ..training.recipe import algorithm_of
from .beam import Beam
from .by_algorithm import AlgorithmScorer
from .catalogue import check_sides, divided, had_columns, places_of
from .scorer import Scorer, beside
from .scorer_cache import scorer_of
from .top_k import Best, ExcludedItems, Places, Scores, best
from .weights import Weights

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter

CELLS = 1 << 20
"""Scores of rows and items that are computed at once, where they are not products; more where there are more items."""
MOST_ROWS = 256
"""Rows that are ranked for at once: their scores of a block of items stay in the cache of a core."""


class Ranked(NamedTuple):
    """Some rows of a query, with their best items.

    Attributes:
        rows: the rows.
        scores, places: see Best.
    """

    rows: pa.Table
    scores: Scores
    places: Places


class Ranking:
    """Ranks all items for each row of a query, checked and to be done.

    Args:
        rows: the columns of the query that may describe its rows.
        schema: its columns.
        items: see catalogue_of.
        exclude: the array column of items that a row has already; None: the histories of the model.

    Raises:
        StatementError: the query cannot run, a column of the model is missing, is in both or has another kind, or EXCLUDE
            names no array of items, or the model does not score items.
    """

    def __init__(
        self,
        version: Version,
        engine: Engine,
        query: str,
        schema: pa.Schema,
        rows: pa.Schema,
        items: pa.Table,
        exclude: str | None,
    ) -> None:
        self._version, self._engine, self._query, self._items = version, engine, query, items
        columns, self._algorithm = columns_from(version.manifest), algorithm_of(version.manifest)
        match, tree = self._algorithm.match, self._algorithm.tree
        if columns.classes is not None or (not columns.labels and match is None and tree is None):
            has = "one for each class" if columns.classes is not None else "none"
            raise StatementError(
                f"Items are ranked by their scores, and {version.manifest.algorithm.name} has {has}. Use a model with labels "
                "of 0 and 1, such as xsvd or slrm, or one of two_tower or tdm."
            )
        if (transform := TRANSFORM.kept(version.manifest)) is not None and transform.items:
            raise StatementError(
                f"Items are ranked by features as they are, and {version.manifest.model} computes some in TRANSFORM. Compute "
                "them in the queries of TRAIN and of this call."
            )
        self._own, self._theirs = divided(columns, rows, items.schema)
        if match is not None:
            check_sides(columns, match.query_slots, match.item_slots, self._own, self._theirs)
        if tree is not None:
            of_item = tuple(name for name in (tree.item, tree.category) if name is not None)
            check_sides(columns, tree.query_slots, of_item, self._own, self._theirs)
        self._had = had_columns(columns, self._algorithm, schema, items.schema.field(0), exclude)

    def best(self, k: int, name: str, reporter: Reporter) -> Iterator[Ranked]:
        """Yield the rows of the query in order, some at once, with their k best items.

        Args:
            name: of the function, for the line of progress.
        """
        share_work(cores())
        scorer = scorer_of(self._version, Weights(self._version, 0, 1).pull)
        items = self._items.select(list(self._theirs.values())).rename_columns(list(self._theirs))
        matching, done = matching_of(self._version, scorer, self._algorithm, items, reporter.note), 0
        reporter.start(f"{name} with {self._version.manifest.model} v{self._version.number}", None)
        try:
            for block in blocks(self._engine.reader(self._query), matching.rows):
                own = block.select(list(self._own.values())).rename_columns(list(self._own))
                found = matching.best(own, k, self._left_out(block))
                yield Ranked(block, found.scores, found.places)
                done += len(block)
                reporter.update(done, {})
        finally:
            reporter.finish("")

    def _left_out(self, block: pa.Table) -> ExcludedItems:
        found = [places_of(block.column(name).combine_chunks(), self._items.column(0)) for name in self._had]
        rows, places = (
            np.concatenate([np.empty(0, np.int64), *parts]) for parts in (zip(*found, strict=True) if found else ((), ()))
        )
        return ExcludedItems.of(rows, places)


class Crossed:
    """Scores each row with each item, by the first label.

    Attributes:
        rows: how many rows to rank for at once.
    """

    def __init__(self, scorer: Scorer, items: pa.Table) -> None:
        self._scorer, self._items = scorer, items
        self.rows = max(1, min(MOST_ROWS, CELLS // len(items)))

    def best(self, rows: pa.Table, k: int, had: ExcludedItems) -> Best:
        """Return the k best items of each row; see best.

        Args:
            rows: what the model reads of them, under its names.
        """

        def score(start: int, stop: int) -> Scores:
            n, theirs = stop - start, np.tile(np.arange(start, stop), len(rows))
            crossed = beside(rows, np.repeat(np.arange(len(rows)), n), self._items, theirs)
            return np.array(self._scorer.predict(crossed)[:, 0]).reshape(-1, n)

        return best(score, len(rows), len(self._items), k, had)


class Products:
    """Multiplies the vectors of rows and items; a vector does not depend on the row or item beside it.

    Attributes:
        rows: see Crossed.
    """

    def __init__(self, scorer: Scorer, match: Match, items: pa.Table) -> None:
        self._scorer, self._match, self._items = scorer, match, items
        self._vectors: Scores | None = None
        self.rows = MOST_ROWS

    def best(self, rows: pa.Table, k: int, had: ExcludedItems) -> Best:
        """See Crossed."""
        if self._vectors is None:
            n = len(self._items)
            every = self._scorer.scored(beside(rows, np.zeros(n, np.int64), self._items, np.arange(n)))
            self._vectors = every.outputs[self._match.item]
        vectors = self._vectors
        own = self._scorer.scored(beside(rows, np.arange(len(rows)), self._items, np.zeros(len(rows), np.int64)))
        asked = own.outputs[self._match.query]
        return best(lambda start, stop: asked @ vectors[start:stop].T, len(rows), len(vectors), k, had)


def matching_of(
    version: Version, scorer: Scorer, algorithm: Algorithm, items: pa.Table, note: Callable[[str], None]
) -> Crossed | Products | Beam:
    """Return the object that ranks items for rows, by algorithm.

    Args:
        items: what the model reads of items, under its names.
        note: called with a note about items that cannot be found.
    """
    if algorithm.tree is not None:
        assert isinstance(scorer, AlgorithmScorer)
        beam = Beam(version, scorer, algorithm, items)
        if beam.unknown:
            note(
                f"{beam.unknown:,} of {len(items):,} items are in no leaf of the tree of {version.manifest.model} "
                f"v{version.number} and are not found: CONTINUE MODEL with rows that have them."
            )
        return beam
    return Crossed(scorer, items) if algorithm.match is None else Products(scorer, algorithm.match, items)


def blocks(reader: pa.RecordBatchReader, size: int) -> Iterator[pa.Table]:
    """Yield the rows of a query, at most `size` at once."""
    for batch in reader:
        for start in range(0, batch.num_rows, size):
            yield pa.table(batch.slice(start, size))
