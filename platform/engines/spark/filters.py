"""Filters of queries on Spark, which the reader of the files evaluates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Kept:
    """Makes a query's rows from one piece of its files: the rows that pass a condition, with the query's columns and types.

    Attributes:
        condition: over the stored columns.
        used: the stored columns that the condition names.
        columns: result column -> stored column.
        schema: the result's columns.
    """

    condition: pc.Expression
    used: frozenset[str]
    columns: Mapping[str, str]
    schema: pa.Schema

    @property
    def needed(self) -> tuple[str, ...]:
        """The stored columns that a piece has."""
        return tuple(sorted({*self.used, *self.columns.values()}))

    def only(self, names: tuple[str, ...]) -> Kept:
        """Return what makes the same rows with some of their columns."""
        columns = {name: self.columns[name] for name in names}
        return Kept(self.condition, self.used, columns, pa.schema([self.schema.field(name) for name in names]))

    def __call__(self, piece: pa.Table) -> pa.Table:
        kept = piece.filter(self.condition).select(list(self.columns.values()))
        return kept.rename_columns(list(self.columns)).cast(self.schema)
