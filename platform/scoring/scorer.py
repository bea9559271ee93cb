"""Scoring rows with a version: its encoder, its algorithm, and the rows of its features from wherever they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...algorithms.base import Algorithm, Inputs, Packaged, Parameters, Sums
from ...algorithms.further import VECTORS
from ...algorithms.learner import Predict
from ...warehouse.manifest import Split
from ...warehouse.package import read_package
from ..engines.base import Scan
from ..engines.repeats import expanded
from ..input.batches import Batch, Ladders, batches
from ..input.columns import Classes, Columns, columns_from
from ..input.encoder import Encoder
from ..input.offered import offered_of
from ..input.prefetch import Ahead
from ..input.scaling import Scales, scale
from ..input.side.versions import located
from ..input.splits import chunk_rows
from ..ps._native import score_sums
from ..ps.compiled.ladder import Ladder
from ..ps.messages import BatchId, Keys, Pulled
from ..training.compiled import prepare_jax
from ..training.online.step import Said, inputs_of, score_step
from ..training.packaged.matrix import TABLE, column_names, matrix_of
from ..training.recipe import algorithm_of
from ..training.row_files.rows import moments_of_version
from .side_vectors import SideOutputs

if TYPE_CHECKING:
    from ...warehouse.version import Version

BATCH_SIZES = (1, 16, 128, 1024, 4096)
"""Default numbers of rows scored at once: the least that holds a table, else the last."""
AHEAD_CHUNKS = 1
KEPT = 32


class Request(NamedTuple):
    """Which rows to score, and what to give with their predictions; travels by pickle.

    Attributes:
        inputs: the model's column -> the scan's.
        carried: columns of the scan that the result has beside predictions.
        schema: of the result.
        top: how many attributions explain a prediction; None: none are wanted.
    """

    version: Version
    scan: Scan
    splits: list[Split]
    inputs: Mapping[str, str]
    carried: tuple[str, ...]
    schema: pa.Schema
    top: int | None

    @property
    def num_labels(self) -> int:
        """How many columns of predictions there are, after those carried and before other outputs."""
        return len(self.version.manifest.labels)


class Scored(NamedTuple):
    """A chunk of rows, the columns carried, and the model's outputs.

    Attributes:
        predictions: float32[rows, num_labels], for a label with classes float32[rows, classes]; empty for a model without
            labels.
        classes: the label's classes, where it has some.
        outputs: by name, float32[rows], or float32[rows, k] of a vector.
    """

    rows: pa.Table
    predictions: NDArray[np.float32]
    outputs: Mapping[str, NDArray[np.float32]]
    classes: Classes | None = None

    @property
    def columns(self) -> list[pa.Array]:
        """Predictions and outputs as columns: DOUBLE each, or one of vectors; for classes the likeliest, and a map of all
        probabilities."""
        if self.classes is not None:
            return [*self.classes.as_columns(self.predictions), *map(as_column, self.outputs.values())]
        return [*(pa.array(line.astype(np.float64)) for line in self.predictions.T), *map(as_column, self.outputs.values())]


class Padding(NamedTuple):
    """The sizes that rows are padded to.

    Attributes:
        batch_sizes: how many rows are scored at once, ascending: the least that holds a table, else the last.
        ladders: gives the sizes of the other arrays for a batch size.
    """

    batch_sizes: tuple[int, ...]
    ladders: Callable[[int], Ladders]


class Shape(NamedTuple):
    """The sizes of arrays that a program is compiled for: rows of a batch, rows of features, values of multi-valued slots."""

    batch: int
    features: int
    values: int


def padding() -> Padding:
    """Return sizes that grow with what is scored: a program is compiled when the first rows need it."""
    shared = Ladders(Ladder(), Ladder())
    return Padding(BATCH_SIZES, lambda batch: shared)


class Scorer:
    """Scores rows with a version: `predict` a table, `score` and `write` the rows of a scan. Threads may share it.

    Args:
        pull: gives the parameters of unique keys, padded to a size.
        sizes: what rows are padded to; None: as `padding`.

    Attributes:
        sums: how its scores are sums over features, which are added without JAX; None for others.
        compiles: a program is compiled for each shape.
        scales: what continuous slots are standardised by, and labels.

    Raises:
        StatementError, ModelError: the version's parts or files cannot be used.
    """

    def __init__(self, version: Version, pull: Callable[[Keys, int], Pulled], sizes: Padding | None = None) -> None:
        prepare_jax()
        algorithm = algorithm_of(version.manifest)
        self._columns = located(columns_from(version.manifest), version.manifest, version)
        self._pull = pull
        num_labels = len(self._columns.labels) if self._columns.standardised else 0
        self.scales = Scales.of(moments_of_version(version, self._columns), num_labels)
        learns = algorithm.learns
        self._sizes = padding() if sizes is None else sizes
        self._outputs = algorithm.outputs
        self.sums = None if self._columns.offered or algorithm.outputs else algorithm.sums
        compact = sizes is None and self.sums is None  # given sizes match the compiled programs
        self._encoder = Encoder(self._columns, algorithm, version.manifest.seed, compact)
        self.compiles = not isinstance(learns, Packaged) and self.sums is None
        if isinstance(learns, Packaged):
            self._say = self._by_package(learns.learner.load(read_package(version.stored("package")[0])))
        elif self.sums is not None:
            self._say = self._by_sums(self.sums)
        else:
            self._say = self._by_rows(algorithm)

    def predict(self, table: pa.Table) -> NDArray[np.float32]:
        """Return the predictions of some rows, see Scored; the first output where there are no labels.

        Args:
            table: has the model's columns by their names, with other case or not as `matched` says, in the types of its slots.

        Raises:
            DataError: a value cannot be encoded; names the column.
        """
        scored = self.scored(table)
        return scored.predictions if self._columns.labels else next(iter(scored.outputs.values()))

    def scored(self, table: pa.Table) -> Scored:
        """Return all outputs of the model for some rows; see `predict`."""
        if table.num_rows:
            return self.said(table, self._encoded(table))
        outputs = {name: np.empty((0, 1) if output.vector else 0, np.float32) for name, output in self._outputs.items()}
        return Scored(table, np.empty((0, self._columns.layout.outputs), np.float32), outputs, self._columns.classes)

    def score(self, request: Request, splits: Sequence[Split]) -> Iterator[Scored]:
        """Score the rows of some splits, in order."""
        for rows, encoded in self.pieces(request, splits):
            yield self.said(rows, encoded)

    def pieces(self, request: Request, splits: Sequence[Split]) -> Iterator[tuple[pa.Table, list[Batch]]]:
        """Read the rows of some splits, in order: the columns carried, and the encoded rows to score."""
        inputs, carried = request.inputs, list(request.carried)
        wanted = list(dict.fromkeys([*inputs.values(), *carried]))

        def chunks() -> Generator[tuple[pa.Table, list[Batch]], None, None]:
            for split in splits:
                for table in request.scan.read(split, wanted, chunk_rows(BATCH_SIZES[-1])):
                    if table.num_rows:  # else a filter left nothing of the piece
                        features = table.select(list(inputs.values())).rename_columns(list(inputs))
                        yield expanded(table.select(carried)), self._encoded(features)

        with Ahead(chunks, AHEAD_CHUNKS) as ahead:
            yield from ahead

    def said(self, rows: pa.Table, encoded: Sequence[Batch]) -> Scored:
        """Score encoded rows."""
        said = [self._say(batch) for batch in encoded]
        predictions, names = [one.predictions for one in said], said[0].outputs
        return Scored(
            rows,
            joined(predictions),
            {name: joined([one.outputs[name] for one in said]) for name in names},
            self._columns.classes,
        )

    def computed(self, table: pa.Table, compute: Callable[[Parameters, Inputs], Any]) -> Iterator[tuple[Any, Any, int]]:
        """Yield, of some rows at once, what a function computes of their rows and inputs, the dense parameters, and how many
        there are; see `predict`.

        Args:
            compute: the same one for the same algorithm, so that it is compiled once.
        """
        for batch in self._encoded(table) if table.num_rows else ():
            pulled = self._pull(batch.keys, batch.size)
            inputs = inputs_of(batch, scale(batch.dense, self.scales.slots, len(batch.weight)), None)
            parameters: dict[str, Any] = {**pulled.weights, **pulled.dense}
            yield compiled(compute)(parameters, inputs), pulled.dense, batch.examples

    def rows(self, keys: Keys, table: str) -> NDArray[np.float32]:
        """Return the rows of distinct keys in a table, float32[n, dim]; zeros where there is none."""
        return self._pull(keys, len(keys)).weights[table]

    def write(self, request: Request, splits: Sequence[Split], path: Path) -> Iterator[int]:
        """Write the rows of some splits with their predictions, and yield how many as they are written."""
        pieces = ((scored.rows, scored.columns, len(scored.predictions)) for scored in self.score(request, splits))
        return write_rows(pieces, request, path)

    def compile(self, row: pa.Table, shape: Shape) -> None:
        """Compile the program of a shape, unless it is there.

        Args:
            row: any row, as `predict` takes it.
        """
        like = self._encoded(row)[0]
        codes = np.zeros(shape.values, np.int32)
        self._say(
            like._replace(
                keys=np.empty(0, np.uint64),
                size=shape.features,
                scalar=np.zeros((len(like.scalar), shape.batch), np.int32),
                bag_index=codes,
                bag_example=codes,
                bag_slot=codes,
                bag_weight=np.zeros(shape.values, np.float32),
                dense=np.full((len(like.dense), 1), np.nan, np.float32),
                dense_index=np.zeros_like(like.dense_index),
                offered_index=np.zeros_like(like.offered_index),
                label=np.zeros((len(like.label), shape.batch), np.float32),
                weight=np.zeros(shape.batch, np.float32),
                histories=tuple(one.empty(shape.batch) for one in like.histories),
                vector_arrays=tuple(one.empty(shape.batch) for one in like.vector_arrays),
            )
        )

    def _encoded(self, table: pa.Table) -> list[Batch]:
        """Return rows as batches of one size."""
        chunk = self._encoder.compacted(self._encoder.scored(table))
        sizes = self._sizes.batch_sizes
        size = next((size for size in sizes if table.num_rows <= size), sizes[-1])
        return list(batches(chunk, size, BatchId(), self._sizes.ladders(size)))

    def _by_package(self, predict: Predict) -> Callable[[Batch], Said]:
        names = column_names(self._columns)

        def say(batch: Batch) -> Said:
            pulled = self._pull(batch.keys, batch.size)
            matrix = matrix_of(batch, pulled.weights[TABLE][:, 0], names, pulled.offered)
            return Said(predict(matrix).reshape(batch.examples, -1), {})

        return say

    def _by_sums(self, sums: Sums) -> Callable[[Batch], Said]:
        columns = self._columns
        intercept, bags = columns.intercept, len(columns.bags)
        dense_slots = np.array([*range(len(columns.continuous)), *elements_of(columns)], np.int32)

        def say(batch: Batch) -> Said:
            dense, rows = scale(batch.dense, self.scales.slots, len(batch.weight)), self._pull(batch.keys, batch.size).weights
            vectors = None if sums.vectors is None else rows[sums.vectors]
            bag = (batch.bag_index, batch.bag_example, batch.bag_slot, batch.bag_weight, bags)
            numbers = (dense, batch.dense_index, dense_slots)
            how = (sums.link, sums.pooling, sums.fields)
            found = score_sums(rows[sums.weights], vectors, batch.scalar, intercept, *bag, *numbers, *how)
            return Said(self.scales.restored(found[: batch.examples]), {})

        return say

    def _by_rows(self, algorithm: Algorithm) -> Callable[[Batch], Said]:
        step, labelled = score_step(algorithm), bool(self._columns.labels)
        dim = next((table.dim for table in algorithm.tables if table.name == VECTORS), 0)
        sides = [SideOutputs(network, dim) for network in algorithm.sides]

        def say(batch: Batch) -> Said:
            dense, examples = scale(batch.dense, self.scales.slots, len(batch.weight)), batch.examples
            pulled = self._pull(batch.keys, batch.size)
            parameters = {**pulled.weights, **pulled.dense}
            made = [side.of(rows, batch.size, pulled.dense) for side, rows in zip(sides, batch.sides, strict=True)]
            said = step(parameters, inputs_of(batch, dense, None, made), offered_of(batch, pulled.offered))
            outputs = {name: np.asarray(said.outputs[name])[:examples] for name in algorithm.outputs}  # in this order
            if not labelled:
                return Said(np.empty((examples, 0), np.float32), outputs)
            return Said(self.scales.restored(np.asarray(said.predictions)[:examples]), outputs)

        return say


def elements_of(columns: Columns) -> Iterator[int]:
    """Give the slot of each element of the slots that are dense vectors, counted with continuous ones before them."""
    for number, slot in enumerate(columns.vectors, len(columns.continuous)):
        yield from [number] * slot.dim


@functools.lru_cache(maxsize=KEPT)
def compiled(compute: Callable[[Parameters, Inputs], Any]) -> Callable[[Parameters, Inputs], Any]:
    """Return a function of rows and inputs, jitted."""
    return jax.jit(compute)


def beside(rows: pa.Table, own: NDArray[np.int64], items: pa.Table, theirs: NDArray[np.int64]) -> pa.Table:
    """Return some rows and some items, one beside the other."""
    left, right = rows.take(own), items.take(theirs)
    return pa.table([*left.columns, *right.columns], names=[*left.column_names, *right.column_names])


def write_rows(pieces: Iterable[tuple[pa.Table, list[pa.Array], int]], request: Request, path: Path) -> Iterator[int]:
    """Write rows as a request's schema has them, and yield how many as they are written.

    Args:
        pieces: the carried columns, the columns after them, and how many rows of the input they are.
    """
    with pq.ParquetWriter(path, request.schema, compression="lz4", use_dictionary=list(request.carried)) as writer:
        for rows, columns, count in pieces:
            writer.write_table(pa.table([*rows.columns, *columns], names=request.schema.names).cast(request.schema))
            yield count


def joined(parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def as_column(values: NDArray[np.float32]) -> pa.Array:
    """Return an output as a column."""
    if values.ndim == 1:
        return pa.array(values.astype(np.float64))
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
