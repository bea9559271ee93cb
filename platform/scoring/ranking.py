"""Ranking (retrieval) of all items for the rows of a query, for ML.RECOMMEND and ML.EVALUATE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.augments.pairs import HALF, LOWER, Pairs, pairs_of, shares
from ...algorithms.base import Algorithm, Match
from ...algorithms.chunk import ABSENT, Chunk
from ..cores import cores
from ..engines.base import Engine
from ..errors import StatementError
from ..input.columns import columns_in
from ..input.kinds.events import USER
from ..input.runs.event_order import column_of
from ..reserved import INTERCEPT_NUMBER
from ..training.clauses.transform import TRANSFORM
from ..training.compiled import share_work
from ..training.recipe import algorithm_of
from .beam import Beam
from .by_algorithm import AlgorithmScorer
from .catalogue import check_sides, divided, had_columns, places_of
from .next_items import NextItems, UserEvents, excluded_events, of_items, shown_of
from .rows import beside
from .scorer import Scorer
from .scorer_cache import scorer_of
from .top_k import Best, ExcludedItems, Places, Scores, best
from .weights import Weights, stored

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from ...warehouse.version import Version
    from ..progress import Reporter

Halves = NDArray[np.uint64]

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
        exclude: the array column of items that a row has already; None: the histories of the model. Of users' events the
            column of the item.
        takes: the newest event of a user took what is to be found, where the model reads users' events.

    Attributes:
        shown: the columns of the query that ranked rows have.

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
        takes: bool = False,
    ) -> None:
        self.shown = schema
        self._version, self._engine, self._query, self._items = version, engine, query, items
        columns, self._algorithm = columns_in(version), algorithm_of(version.manifest)
        match, tree = self._algorithm.match, self._algorithm.tree
        if columns.classes is not None or (not columns.labels and match is None and tree is None):
            has = "one for each class" if columns.classes is not None else "none"
            raise StatementError(
                f"Items are ranked by their scores, and {version.manifest.algorithm.name} has {has}. Use a model with labels "
                "of 0 and 1, such as xsvd or slrm, or one of two_tower, tdm, or sequence without LABEL."
            )
        if (transform := TRANSFORM.kept(version.manifest)) is not None and transform.items:
            raise StatementError(
                f"Items are ranked by features as they are, and {version.manifest.model} computes some in TRANSFORM. Compute "
                "them in the queries of TRAIN and of this call."
            )
        self._events: UserEvents | None = None
        if column_of(columns, USER.role) is not None:
            if match is None:
                raise StatementError(
                    f"{version.manifest.model} predicts {columns.labels[0]} of events, and finds no items. Score candidates as "
                    "rows of ML.PREDICT, or train sequence without LABEL."
                )
            self.shown = schema if takes else shown_of(columns, match, schema, items.schema)
            self._events = UserEvents(columns, match, engine, query, schema, self.shown, takes)
            self._theirs = of_items(columns, match, items.schema)
            self._had = excluded_events(exclude, items.schema.field(0))
            return
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
        reporter.start(f"{name} with {self._version.manifest.model} v{self._version.number}", None)
        try:
            if self._events is not None:
                yield from self._next(self._events, scorer, items, k, reporter)
                return
            matching, done = matching_of(self._version, scorer, self._algorithm, items, reporter.note), 0
            for block in blocks(self._engine.reader(self._query), matching.rows):
                own = block.select(list(self._own.values())).rename_columns(list(self._own))
                found = matching.best(own, k, self._left_out(block))
                yield Ranked(block, found.scores, found.places)
                done += len(block)
                reporter.update(done, {})
        finally:
            reporter.finish("")

    def _next(self, events: UserEvents, scorer: Scorer, items: pa.Table, k: int, reporter: Reporter) -> Iterator[Ranked]:
        """Yield the users of the query, some at once, with the k best items for the moment that they ask about."""
        match, done = self._algorithm.match, 0
        assert match is not None
        matching = NextItems(scorer, match, items, columns_in(self._version))
        for asked in events.blocks():
            rows, places = np.empty(0, np.int64), np.empty(0, np.int64)
            if self._had:
                column, owner = asked.had
                rows, places = places_of(column.combine_chunks(), self._items.column(0))
                rows = owner[rows]
            found = matching.best(asked, k, ExcludedItems.of(rows, places))
            yield Ranked(asked.rows, found.scores, found.places)
            done += len(asked.rows)
            reporter.update(done, {})

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


class PairSums:
    """Multiplies histories of rows with weights of pairs, both as sparse matrices: a score is a sum over a row's pairs.

    Args:
        pairs: those that the scores are sums over.
        items: what the model reads of items.

    Attributes:
        rows: see Crossed.
    """

    def __init__(self, version: Version, scorer: AlgorithmScorer, pairs: Pairs, items: pa.Table) -> None:
        self._version, self._scorer, self._pairs, self._items, self.rows = version, scorer, pairs, items, MOST_ROWS
        self._matrix: tuple[Halves, csr_array] | None = None

    def best(self, rows: pa.Table, k: int, had: ExcludedItems) -> Best:
        """See Crossed."""
        chunk = self._scorer.unchanged(beside(rows, np.arange(len(rows)), self._items, np.zeros(len(rows), np.int64)))
        scores = self._products(chunk, *self._weights(rows.schema))
        return best(lambda start, stop: self._predicted(scores[:, start:stop]), len(rows), len(self._items), k, had)

    def _products(self, chunk: Chunk, halves: Halves, weights: csr_array) -> Scores:
        """Return the intercept plus the weights of each row's pairs with each item, float32[rows, items]."""
        from scipy.sparse import csr_array

        bag = chunk.bags[self._pairs.history]
        lengths = np.diff(bag.offsets)
        numbers = bag.weights * np.repeat(shares(lengths), lengths)
        codes = places_among(halves, chunk.keys >> HALF)[bag.codes]
        histories = csr_array((numbers, codes, bag.offsets), shape=(len(lengths), len(halves) + 1))
        scores: Scores = (histories @ weights).toarray()
        intercept = self._scorer.rows(chunk.keys[chunk.slots == INTERCEPT_NUMBER], "weights")
        scores += intercept.sum(dtype=np.float32)
        return scores

    def _predicted(self, scores: Scores) -> Scores:
        from scipy.special import expit

        predictions: Scores = expit(scores)
        if (calibrators := self._scorer.calibrators) is not None:
            predictions = calibrators.of(predictions.reshape(-1, 1), None).reshape(scores.shape)
        return predictions

    def _weights(self, rows: pa.Schema) -> tuple[Halves, csr_array]:
        """Return the upper halves of the keys of what was had, ascending, and the weights of their pairs with each item: a line
        for each, and one without any for what the model does not know."""
        if self._matrix is None:
            n = len(self._items)
            own = pa.table([pa.nulls(n, field.type) for field in rows], schema=rows)
            chunk = self._scorer.unchanged(beside(own, np.arange(n), self._items, np.arange(n)))
            codes = chunk.scalar[self._pairs.item]
            known = np.flatnonzero(codes != ABSENT)
            self._matrix = matrix_of(self._version, known, chunk.keys[codes[known]] >> HALF, n)
        return self._matrix


def matching_of(
    version: Version, scorer: Scorer, algorithm: Algorithm, items: pa.Table, note: Callable[[str], None]
) -> Crossed | Products | PairSums | Beam:
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
    if algorithm.match is not None:
        return Products(scorer, algorithm.match, items)
    pairs, by_item = pairs_of(algorithm.learns), scorer.calibrators is not None and scorer.calibrators.line is not None
    if not by_item and len(pairs) == 1 and pairs[0].alone:
        assert isinstance(scorer, AlgorithmScorer)
        return PairSums(version, scorer, pairs[0], items)
    return Crossed(scorer, items)


def blocks(reader: pa.RecordBatchReader, size: int) -> Iterator[pa.Table]:
    """Yield the rows of a query, at most `size` at once."""
    for batch in reader:
        for start in range(0, batch.num_rows, size):
            yield pa.table(batch.slice(start, size))


def matrix_of(version: Version, places: Places, halves: Halves, items: int) -> tuple[Halves, csr_array]:
    """Return what PairSums multiplies with: what was had, and weights by it and by item.

    Args:
        places, halves: of the items that have a key, and its upper half, which two of them may have in common.
    """
    from scipy.sparse import csr_array

    weights, keys = stored(version)
    some = (weights != 0) & (keys >> HALF != keys & LOWER)  # an item makes no pair with itself
    weights, keys = weights[some], keys[some]
    order = np.argsort(halves)
    first, last = (np.searchsorted(halves[order], keys >> HALF, side=side) for side in ("left", "right"))
    counts = last - first
    row = np.repeat(np.arange(len(keys)), counts)
    column = order[np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) + first[row]]
    had, line = np.unique(keys[row] & LOWER, return_inverse=True)
    return had, csr_array((weights[row], (line, places[column])), shape=(len(had) + 1, items))


def places_among(ascending: Halves, halves: Halves) -> NDArray[np.int64]:
    """Return where each half is among ascending ones, their number where it is not."""
    at = np.searchsorted(ascending, halves)
    there = np.append(ascending, np.uint64(0))[at] == halves
    return np.where(there, at, len(ascending))
