"""ML.RECOMMEND: the items with the highest scores for each row of a query, of all that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...algorithms.augments.pairs import Pairs
from ...algorithms.base import Algorithm, Online
from ..cores import cores
from ..engines.base import Engine
from ..errors import StatementError, suggestion
from ..input.columns import Columns, columns_from
from ..input.slots import matched
from ..input.transform import Transform
from ..training.compiled import share_work
from ..training.recipe import algorithm_of
from .scorer import Scorer
from .weights import Weights

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter

CELLS = 1 << 20
"""Scores of rows and items that are computed, and sorted, at once; more where there are more items."""
MOST_ROWS = 1024
ADDED = pa.schema([("rank", pa.int64()), ("score", pa.float64())])

Scores = NDArray[np.float32]


def catalogue_of(version: Version, items: pa.Table, k: int) -> pa.Table:
    """Return items, one a row, whose first column tells them apart.

    Raises:
        StatementError: an item is NULL or there twice, or there are fewer than k.
    """
    names = items.column(0)
    model, first = f"{version.manifest.model} v{version.number}", items.column_names[0]
    if names.null_count:
        raise StatementError(f"ITEMS has an item whose {first} is NULL; leave it out: WHERE {first} IS NOT NULL.")
    counts = names.value_counts()
    twice = counts.filter(pc.greater(counts.field(1), 1))
    if len(twice):
        raise StatementError(
            f"ITEMS has the item {twice[0]['values'].as_py()!r} {twice[0]['counts']} times. Its first column, {first}, tells "
            "items apart: SELECT DISTINCT, or one row of each."
        )
    if len(names) < k:
        raise StatementError(f"ML.RECOMMEND of {model} is asked for {k} items, and ITEMS has {len(names)}. Ask for no more.")
    return items


class Recommendation:
    """The rows of a query, each with its k best items, checked and to be written.

    Args:
        items: see catalogue_of.
        exclude: the array column of items that a row has already; None: the histories of the model.

    Attributes:
        schema: the result's columns.

    Raises:
        StatementError: the query cannot run, a column of the model is missing, is in both or has another kind, or EXCLUDE
            names no array of items, or the model does not score items.
    """

    def __init__(self, version: Version, engine: Engine, query: str, items: pa.Table, k: int, exclude: str | None) -> None:
        self._version, self._engine, self._query = version, engine, query
        self._items, self._k = items, k
        self._columns, self._algorithm = columns_from(version.manifest), algorithm_of(version.manifest)
        if not self._columns.labels and self._algorithm.match is None:
            raise StatementError(
                f"ML.RECOMMEND ranks items by their scores, and {version.manifest.algorithm.name} has none. Use a model with "
                "labels, such as xsvd or slrm, or one of two_tower."
            )
        if (transform := Transform.of(version.manifest.transform)) is not None and transform.items:
            raise StatementError(
                f"ML.RECOMMEND reads features as they are, and {version.manifest.model} computes some in TRANSFORM. Compute "
                "them in the queries of TRAIN and ML.RECOMMEND."
            )
        rows = engine.schema(query)
        self._own, self._theirs = divided(self._columns, rows, items.schema)
        self._had = had_columns(self._columns, self._algorithm, rows, items.schema.field(0), exclude)
        self.schema = pa.schema([*rows, items.schema.field(0), *ADDED])
        names = [name.lower() for name in self.schema.names]
        clash = sorted({name for name in names if names.count(name) > 1})
        if clash:
            raise StatementError(f"The result would have two columns {', '.join(clash)}; rename that of the query with AS.")

    def write(self, folder: Path, reporter: Reporter) -> list[Path]:
        """Find the best items and write them, each row's in order of rank, rows in the order of the query."""
        share_work(cores())
        ranking = Ranking(self._scorer(), self._algorithm, self._catalogue(), self._k)
        path, rows = folder / "recommendations.parquet", 0
        reporter.start(f"ML.RECOMMEND with {self._version.manifest.model} v{self._version.number}", None)
        try:
            with pq.ParquetWriter(path, self.schema, compression="lz4") as writer:
                for block in blocks(self._engine.reader(self._query), ranking.rows):
                    writer.write_table(self._best(block, ranking))
                    rows += len(block)
                    reporter.update(rows, {})
        finally:
            reporter.finish("")
        return [path]

    def _scorer(self) -> Scorer:
        return Scorer(self._version, Weights(self._version, 0, 1).pull)

    def _catalogue(self) -> pa.Table:
        """Return what the model reads of items, under its names."""
        return self._items.select(list(self._theirs.values())).rename_columns(list(self._theirs))

    def _best(self, block: pa.Table, ranking: Ranking) -> pa.Table:
        rows = block.select(list(self._own.values())).rename_columns(list(self._own))
        had = np.zeros((len(block), len(self._items)), np.bool_)
        for name in self._had:
            mark(had, block.column(name).combine_chunks(), self._items.column(0))
        scores, places = ranking.best(rows, had)
        there = scores > -np.inf
        own, rank = np.nonzero(there)
        columns = [*block.take(own).columns, self._items.column(0).take(places[there]), rank + 1, scores[there]]
        arrays = [pa.array(column) if isinstance(column, np.ndarray) else column for column in columns]
        return pa.table(arrays, names=self.schema.names).cast(self.schema)


class Ranking:
    """Ranks all items for some rows.

    Args:
        items: what the model reads of items, under its names.

    Attributes:
        rows: how many to rank for at once.
    """

    def __init__(self, scorer: Scorer, algorithm: Algorithm, items: pa.Table, k: int) -> None:
        self._scorer, self._match, self._items, self._k = scorer, algorithm.match, items, k
        self._vectors: Scores | None = None
        self.rows = max(1, min(MOST_ROWS, CELLS // len(items)))

    def best(self, rows: pa.Table, had: NDArray[np.bool_]) -> tuple[Scores, NDArray[np.int32]]:
        """Return scores and places of the k best items of each row, float32[rows, k] and int32[rows, k], the best first and of
        equal ones the first; -inf stands for items that the row has.

        Args:
            rows: what the model reads of them, under its names.
            had: bool[rows, items].
        """
        import jax

        scores = self._crossed(rows) if self._match is None else self._products(rows, *self._match)
        found, places = jax.lax.top_k(np.where(had, -np.inf, scores), self._k)
        return np.asarray(found), np.asarray(places)

    def _crossed(self, rows: pa.Table) -> Scores:
        """Score each row with each item, by the first label."""
        n = len(self._items)
        item = np.tile(np.arange(n), len(rows))
        return self._scorer.predict(beside(rows, np.repeat(np.arange(len(rows)), n), self._items, item))[:, 0].reshape(-1, n)

    def _products(self, rows: pa.Table, query: str, item: str) -> Scores:
        """Multiply the vectors of rows and items; what stands beside either does not change it."""
        if self._vectors is None:
            n = len(self._items)
            every = self._scorer.scored(beside(rows, np.zeros(n, np.int64), self._items, np.arange(n)))
            self._vectors = every.outputs[item]
        own = self._scorer.scored(beside(rows, np.arange(len(rows)), self._items, np.zeros(len(rows), np.int64)))
        return own.outputs[query] @ self._vectors.T


def beside(rows: pa.Table, own: NDArray[np.int64], items: pa.Table, theirs: NDArray[np.int64]) -> pa.Table:
    """Return some rows and some items, one beside the other."""
    left, right = rows.take(own), items.take(theirs)
    return pa.table([*left.columns, *right.columns], names=[*left.column_names, *right.column_names])


def blocks(reader: pa.RecordBatchReader, size: int) -> Iterator[pa.Table]:
    """Give the rows of a query, at most `size` at once."""
    for batch in reader:
        for start in range(0, batch.num_rows, size):
            yield pa.table(batch.slice(start, size))


def divided(columns: Columns, rows: pa.Schema, items: pa.Schema) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return which columns of the query, and which of ITEMS, a model reads: its name -> theirs."""
    own, theirs = ({name.lower() for name in schema.names} for schema in (rows, items))
    for name in columns.inputs:
        if name.lower() in own & theirs:
            raise StatementError(f"Both the query and ITEMS return {name}; leave it out of the one that it does not describe.")
        if name.lower() not in own | theirs:
            raise StatementError(
                f"The model needs the column {name}, which neither the query nor ITEMS returns."
                f"{suggestion(name, [*rows.names, *items.names])}"
            )
    of_items = [name for name in columns.inputs if name.lower() in theirs]
    if not of_items:
        raise StatementError(
            f"ITEMS returns no column of the model, so that all score the same.{suggestion(items.names[0], columns.inputs)}"
        )
    of_rows = [name for name in columns.inputs if name.lower() in own]
    return matched(columns, rows, of_rows), matched(columns, items, of_items)


def had_columns(
    columns: Columns, algorithm: Algorithm, rows: pa.Schema, item: pa.Field, exclude: str | None
) -> tuple[str, ...]:
    """Return the array columns of the query whose items are left out: that of EXCLUDE, else the histories of the model, which
    share the rows of the item or make pairs with it."""
    own = {name.lower(): name for name in rows.names}
    if exclude is not None:
        if exclude.lower() not in own:
            raise StatementError(
                f"EXCLUDE names {exclude!r}, which the query does not return.{suggestion(exclude, rows.names)}"
            )
        column = rows.field(own[exclude.lower()])
        if not (is_array(column.type) and alike(column.type.value_type, item.type)):
            raise StatementError(
                f"EXCLUDE expects an array of items that a row has, of {item.type} as {item.name} is in ITEMS; "
                f"{column.name} is {column.type}. Use collect_list, array() or CAST."
            )
        return (column.name,)
    learns = algorithm.learns
    pairs = [one for one in learns.augment if isinstance(one, Pairs)] if isinstance(learns, Online) else []
    slots = [columns.bags[pair.history] for pair in pairs]
    slots += [slot for slot in columns.slots if slot.name != slot.source and slot.source.lower() == item.name.lower()]
    found = [rows.field(own[slot.column.lower()]) for slot in slots if slot.column.lower() in own]
    known = [field for field in found if is_array(field.type) and alike(field.type.value_type, item.type)]
    return tuple(dict.fromkeys(field.name for field in known))


def is_array(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type))


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types can be the same item."""
    kinds = plain(one), plain(other)
    texts = [pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds]
    return all(texts) or all(pa.types.is_integer(kind) for kind in kinds) or bool(one == other)


def plain(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_dictionary(type) else type


def mark(had: NDArray[np.bool_], arrays: pa.Array, items: pa.ChunkedArray) -> None:
    """Mark the items of each row's array, in place."""
    values, names = arrays.flatten(), items.combine_chunks()
    kind = pa.large_string() if not pa.types.is_integer(plain(names.type)) else pa.int64()
    places = pc.index_in(values.cast(kind), value_set=names.cast(kind))
    found = places.is_valid().to_numpy(zero_copy_only=False)
    rows = arrays.value_parent_indices().to_numpy(zero_copy_only=False)
    had[rows[found], places.to_numpy(zero_copy_only=False)[found].astype(np.int64)] = True
