"""The encoder of a model: rows of the input become batches, for training, scoring and estimates."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.augment import Augment, Draw
from ...algorithms.augments.random_items import Catalogue, RandomItems
from ...algorithms.base import Algorithm
from ...algorithms.blocks.events import EVENTS
from ...algorithms.chunk import Chunk
from ...algorithms.losses import Loss
from ..engines.repeats import flat
from ..errors import DataError
from ..ps.messages import BatchId
from ..trees.tree import Tree, TreeNodes
from .batches import Batch, Ladders, batches
from .columns import Columns
from .encode import encode, require_known
from .items import ItemFile
from .numbers import shown
from .runs.finding import RunFinder, RunsOfSplit
from .side.table import SideTable
from .splits import OF_NUMBERS, chunk_batches

NEVER = Draw(0, 0, 0)
"""The seed for scored rows, for which nothing is drawn."""


class Encoder:
    """Encodes the rows of one model.

    Args:
        columns: slots and roles.
        algorithm: what learns from the batches, and how it wants them changed.
        seed: of what is drawn at random.
        compact: whether to find what neighbouring rows have in common, where the algorithm can compute it once.
        tree: of the items, where the algorithm has one and the rows are learned from.
        items: those that a statement gives, see ItemFile.
        vectors: whether vectors with ids are read here; shards may.

    Attributes:
        copies: how many rows each row becomes in training.
    """

    def __init__(
        self,
        columns: Columns,
        algorithm: Algorithm,
        seed: int,
        compact: bool,
        tree: Tree | None = None,
        items: ItemFile | None = None,
        vectors: bool = True,
    ) -> None:
        self._columns = replace(columns, logarithmic=algorithm.traits.logarithmic)
        self._layout = columns.layout
        self._loss = algorithm.loss
        self._augment: tuple[Augment, ...] = algorithm.learns.augment
        if algorithm.tree is not None and tree is not None:
            self._augment = (*self._augment, TreeNodes(algorithm.tree, tree))
        self._items = items
        self._seed = seed
        self._sides = tuple(SideTable(side, vectors) for side in columns.sides if side.folder)
        self._runs = RunFinder() if compact and algorithm.traits.compact and not columns.searched else None
        self._apart = self._runs is not None and not self._augment
        self._search = algorithm.traits.search
        self.copies = math.prod(augment.copies for augment in self._augment)

    def chunk(self, table: pa.Table, where: Callable[[int], str]) -> Chunk:
        """Encode rows to learn from.

        Args:
            table: has the columns `Columns.learned`.
            where: names a row of the table.

        Raises:
            DataError: see encode; a label is NULL, or none that the loss takes, or a weight is not a number
                >= 0.
        """
        chunk = self._with_sides(encode(table, self._columns, with_labels=True, where=where, runs_apart=self._apart))
        if self._columns.classes is not None:
            require_known(flat(table.column(self._columns.labels[0])), chunk.label[0], self._columns, where)
        check(chunk, where, self._columns, self._loss)
        for events in chunk.block(EVENTS):
            events.check(where)
        return chunk

    def scored(self, table: pa.Table) -> Chunk:
        """Encode rows to score, with the algorithm's changes for scoring.

        Args:
            table: has the columns `Columns.inputs`.

        Raises:
            DataError: see encode.
        """
        return self._scored(self.unlabelled(table))

    def measured(self, table: pa.Table, where: Callable[[int], str]) -> Chunk:
        """Encode rows to score that have labels; see chunk and scored."""
        return self._scored(self.chunk(table, where))

    def _scored(self, chunk: Chunk) -> Chunk:
        for augment in self._augment:
            if augment.scores:
                chunk = augment.prepare(chunk, self._layout, NEVER)(chunk, 0, len(chunk.weight))
        return chunk

    def unlabelled(self, table: pa.Table) -> Chunk:
        """Encode rows that have no labels, as `batches` takes them.

        Raises:
            DataError: see encode.
        """
        return self._with_sides(encode(table, self._columns, with_labels=False, runs_apart=self._apart))

    def _with_sides(self, chunk: Chunk) -> Chunk:
        """Return a chunk with what is read beside its rows: chosen elements of histories, and vectors with ids."""
        chunk = chunk if self._search is None else self._search.of_chunk(chunk)
        return chunk._replace(sides=tuple(table.codes(chunk) for table in self._sides)) if self._sides else chunk

    def compacted(self, chunk: Chunk) -> Chunk:
        """Return a chunk with what neighbouring rows have in common, where that is wanted and found."""
        return chunk if self._runs is None else self._runs.found(chunk)

    @functools.cached_property
    def _over_items(self) -> Sequence[Augment]:
        """What changes examples that are learned from; random items are those that the statement gives."""
        return [self._drawing(augment) if isinstance(augment, RandomItems) else augment for augment in self._augment]

    def _drawing(self, augment: RandomItems) -> RandomItems:
        if self._items is None:
            return augment
        columns = self._columns.only(augment.item)
        chunk = self._items.using(lambda items: encode(items.rows(columns.inputs), columns, with_labels=False))
        return replace(augment, catalogue=Catalogue(chunk, columns.layout))

    def batches(
        self,
        chunk: Chunk,
        batch_size: int,
        first: BatchId,
        ladders: Ladders,
        skipped: int,
        split: RunsOfSplit | None = None,
        number: int = 0,
    ) -> Iterator[Batch]:
        """Cut a chunk into batches to learn from, numbered from `first`.

        Rows that augments add stay in the batch of the row they come from, which becomes larger; they are made piece by piece.

        Args:
            batch_size: rows of the chunk for each.
            skipped: how many of them are left out, from the first on.
            split: finds what neighbouring rows have in common in the split whose chunk this is; None: it is of none.
            number: of the chunk in its split.
        """
        rows, size = len(chunk.weight), batch_size * self.copies
        draw = Draw(self._seed, first.pass_number, first.batch)
        prepared = [augment.prepare(chunk, self._layout, draw) for augment in self._over_items]
        most = rows
        if self.copies > 1:
            values = sum(len(bag.codes) for bag in chunk.bags) // max(1, rows)
            most = chunk_batches(size * (1 + values)) * batch_size
        for start in range(0, rows, max(1, most)):
            piece, stop = chunk, min(start + most, rows)
            for prepare in prepared:
                piece = prepare(piece, start, stop)
            piece = self.compacted(piece) if split is None or self._runs is None else split.found(piece, number)
            before = start // batch_size
            yield from batches(piece, size, first._replace(batch=first.batch + before), ladders, skipped - before)


def check(chunk: Chunk, where: Callable[[int], str], columns: Columns, loss: Loss | None) -> None:
    """Refuse labels and weights that cannot be learned from, and labels that contradict a chain.

    Args:
        where: names a row of the chunk.
        loss: of the labels, if there are any.

    Raises:
        DataError: names the column, file, row and value.
    """
    for name, values in zip(columns.labels, chunk.label, strict=False):
        if loss is None or not (loss.classifier or loss.counts):
            require(np.isfinite(values), values, f"LABEL {name} must be a finite number", where)
        else:
            require(loss.takes(values), values, f"LABEL {name} must be {loss.expects}", where, OF_NUMBERS)
    for before, label in itertools.pairwise(range(len(columns.labels)) if columns.chained else ()):
        good = chunk.label[label] <= chunk.label[before]
        rule = f"LABEL {columns.labels[label]} must be 0 where {columns.labels[before]} is 0, as they are a chain"
        require(good, chunk.label[label], rule, where)
    if columns.weight is not None:
        good = (chunk.weight >= 0) & np.isfinite(chunk.weight)
        require(good, chunk.weight, f"WEIGHT {columns.weight} must be a finite number of at least 0", where)


def require(
    good: NDArray[np.bool_], values: NDArray[np.float32], rule: str, where: Callable[[int], str], instead: str = ""
) -> None:
    """Refuse the first invalid value; `instead` tells what else takes such values."""
    if not good.all():
        at = int(np.argmin(good))
        raise DataError(
            f"{rule}; {where(at)} has {shown(values[at])}. Filter or CAST it in the query.{instead and f' {instead}'}"
        )
