"""ML.EVALUATE with ITEMS (recall, ndcg, hit rate): whether the items that rows took are among their best ones of all items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..engines.base import Engine
from ..errors import StatementError, suggestion
from ..quoting import quoted
from ..spark_types import type_words
from ..training.clauses.label import LABEL
from .catalogue import alike, is_array, places_of
from .ranking import Ranking
from .top_k import Places

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        *((name, pa.float64()) for name in ("recall", "ndcg", "hit_rate", "coverage")),
        *((name, pa.int64()) for name in ("examples", "missing")),
    ]
)


class Retrieval:
    """How well a version finds what the rows of a query took, checked and to be measured.

    A row says what it took in the column that is named as the first of ITEMS: an item, or an array of items. Other columns that
    both have are read from ITEMS. A row without an item is not counted; an item that ITEMS lacks is never found. Nor are rows
    counted whose label is 0, where the model learned from what a LABEL says was taken and the query has it. Where the model
    reads users' events, the newest event of each user is the row, and the others are what came before.

    Args:
        ks: how many items are looked at, a row of the result each.

    Raises:
        StatementError: see Ranking, or the query does not say what its rows took.
    """

    def __init__(
        self, version: Version, engine: Engine, query: str, items: pa.Table, ks: Sequence[int], exclude: str | None
    ) -> None:
        schema, item = engine.schema(query), items.schema.field(0)
        taken = next((field for field in schema if field.name.lower() == item.name.lower()), None)
        if taken is None:
            raise StatementError(
                f"The query does not say which items its rows took: it needs a column {item.name}, as the first of ITEMS is "
                f"named, an item or an array of items.{suggestion(item.name, schema.names)}"
            )
        kind = taken.type.value_type if is_array(taken.type) else taken.type
        if not alike(kind, item.type):
            raise StatementError(
                f"{taken.name} of the query holds {type_words(taken.type)}, and {item.name} of ITEMS {type_words(item.type)}, "
                "which cannot be the same items. Use CAST."
            )
        label = LABEL.kept(version.manifest).positive
        if label is not None and label.lower() in {name.lower() for name in schema.names}:
            query = f"SELECT * FROM ({query}\n) WHERE CAST({quoted(label)} AS DOUBLE) = 1"
        theirs = {name.lower() for name in items.column_names}
        rows = pa.schema([field for field in schema if field.name.lower() not in theirs])
        self._ranking = Ranking(version, engine, query, schema, rows, items, exclude, takes=True)
        self._items, self._ks, self._taken = items, ks, taken.name

    def measure(self, reporter: Reporter) -> pa.Table:
        """Rank all items for each row, and return a row of metrics for each k.

        recall is the mean over rows of the share of their items that are found; ndcg weighs a find at rank r with 1 / log2(r +
        1), over the most that there could be (Järvelin and Kekäläinen, TOIS 2002); hit_rate is the share of rows for which one
        is found; coverage the share of the items of ITEMS that some row is given.
        """
        tally = RetrievalTally(len(self._items), self._ks)
        for ranked in self._ranking.best(max(self._ks), "ML.EVALUATE", reporter):
            taken = places_of(ranked.rows.column(self._taken).combine_chunks(), self._items.column(0))
            tally.add(np.where(ranked.scores > -np.inf, ranked.places, -1), *taken)
        return tally.table()


class RetrievalTally:
    """Sums of metrics over rows, and which items were given."""

    def __init__(self, items: int, ks: Sequence[int]) -> None:
        self._items, self._ks = items, ks
        self._sums = np.zeros((len(ks), 3))
        self._given = np.zeros((len(ks), items), bool)
        self._examples = self._missing = 0
        gains = 1 / np.log2(np.arange(max(ks)) + 2)
        self._gains, self._most = gains, np.cumsum(gains)

    def add(self, places: Places, rows: Places, taken: Places) -> None:
        """Count some rows.

        Args:
            places: int64[n, k] of the best items, the best first; -1 where there is none.
            rows, taken: which row took an item, and the item's place; -1 where it is none of ITEMS.
        """
        known = taken >= 0
        pairs = np.unique(rows[known] * self._items + taken[known])
        relevant = np.bincount(np.concatenate([pairs // self._items, rows[~known]]), minlength=len(places))
        found = np.isin(places + np.arange(len(places))[:, None] * self._items, pairs) & (places >= 0)
        asked = relevant > 0
        self._examples += int(asked.sum())
        self._missing += int((~known).sum())
        for number, k in enumerate(self._ks):
            hits = found[asked, :k]
            self._sums[number] += measures(hits, relevant[asked], self._gains, self._most)
            given = places[asked, :k]
            self._given[number, given[given >= 0]] = True

    def table(self) -> pa.Table:
        """Return a row for each k; metrics are NULL where there was no row to measure."""
        rows = []
        for k, sums, given in zip(self._ks, self._sums, self._given, strict=True):
            means = [float(one) / self._examples if self._examples else None for one in sums]
            coverage = float(given.mean()) if self._examples else None
            rows.append((k, *means, coverage, self._examples, self._missing))
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def measures(
    hits: NDArray[np.bool_], relevant: NDArray[np.int64], gains: NDArray[np.float64], most: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the sums over rows of recall, ndcg and hit rate.

    Args:
        hits: bool[rows, k], whether the item of a rank is one that the row took.
        relevant: int64[rows], how many it took, one or more.
        gains: of each rank.
        most: of the first ranks together.
    """
    k = hits.shape[1]
    ideal = most[np.minimum(relevant, k) - 1]
    return (
        float((hits.sum(axis=1) / relevant).sum()),
        float(((hits * gains[:k]).sum(axis=1) / ideal).sum()),
        float(hits.any(axis=1).sum()),
    )
