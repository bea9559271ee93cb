"""ML.RECOMMEND: the items with the highest scores for each row of a query, among all items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.base import Engine
from ..errors import StatementError
from .ranking import Ranked, Ranking

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter

ADDED = pa.schema([("rank", pa.int64()), ("score", pa.float64())])


class Recommendation:
    """The rows of a query, each with its k best items, checked and to be written; arguments and errors as for Ranking.

    Attributes:
        schema: the result's columns.
    """

    def __init__(self, version: Version, engine: Engine, query: str, items: pa.Table, k: int, exclude: str | None) -> None:
        schema = engine.schema(query)
        self._ranking = Ranking(version, engine, query, schema, schema, items, exclude)
        self._items, self._k = items, k
        self.schema = pa.schema([*self._ranking.shown, items.schema.field(0), *ADDED])
        names = [name.lower() for name in self.schema.names]
        clash = sorted({name for name in names if names.count(name) > 1})
        if clash:
            raise StatementError(f"The result would have two columns {', '.join(clash)}; rename the query's column with AS.")

    def write(self, folder: Path, reporter: Reporter) -> list[Path]:
        """Find the best items and write them, each row's in order of rank, rows in the order of the query."""
        path = folder / "recommendations.parquet"
        with pq.ParquetWriter(path, self.schema, compression="lz4") as writer:
            for ranked in self._ranking.best(self._k, "ML.RECOMMEND", reporter):
                writer.write_table(self._written(ranked))
        return [path]

    def _written(self, ranked: Ranked) -> pa.Table:
        """Return a row for each item that was found."""
        there = ranked.scores > -np.inf
        own, rank = np.nonzero(there)
        items = self._items.column(0).take(ranked.places[there])
        columns = [*ranked.rows.take(own).columns, items, rank + 1, ranked.scores[there]]
        arrays = [pa.array(column) if isinstance(column, np.ndarray) else column for column in columns]
        return pa.table(arrays, names=self.schema.names).cast(self.schema)
