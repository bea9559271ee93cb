"""Scoring rows with a version: its encoder, its algorithm, and the rows of its features from wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...warehouse.manifest import Split
from ...warehouse.package import read_package
from ..engines.base import Scan
from ..input.batches import Batch, Ladders, batches
from ..input.columns import columns_from
from ..input.encode import encode
from ..input.offered import offered_of
from ..input.pairs import paired
from ..input.prefetch import Ahead
from ..input.scaling import Scales, scale
from ..input.splits import chunk_rows
from ..ps.ladder import Ladder
from ..ps.messages import BatchId, Keys, Pulled
from ..training.compiled import prepare_jax
from ..training.online.step import inputs_of, score_step
from ..training.packaged.matrix import TABLE, column_names, matrix_of
from ..training.recipe import algorithm_of
from ..training.rows import moments_of_version

if TYPE_CHECKING:
    from ...warehouse.version import Version

BATCH_SIZES = (1, 16, 128, 1024, 4096)
"""How many rows are scored at once, where nobody says: the least that holds a table, else the last."""
AHEAD_CHUNKS = 1


class Request(NamedTuple):
    """Which rows to score, and what to give with their predictions; travels by pickle.

    Attributes:
        inputs: the model's column -> the scan's.
        carried: columns of the scan that the result has beside predictions.
        schema: of the result.
    """

    version: Version
    scan: Scan
    splits: list[Split]
    inputs: Mapping[str, str]
    carried: tuple[str, ...]
    schema: pa.Schema

    @property
    def added(self) -> list[str]:
        """The columns of predictions."""
        return list(self.schema.names[len(self.carried) :])

    @property
    def embeds(self) -> bool:
        """Whether a prediction is a vector."""
        return bool(pa.types.is_list(self.schema.types[-1]))


class Scored(NamedTuple):
    """A chunk of rows, the columns carried, and their predictions, float32[rows, num_labels], or their vectors."""

    rows: pa.Table
    predictions: NDArray[np.float32]


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
        sizes: what rows are padded to; those of `padding` where it is None.

    Raises:
        StatementError, ModelError: the version's parts or files cannot be used.
    """

    def __init__(self, version: Version, pull: Callable[[Keys, int], Pulled], sizes: Padding | None = None) -> None:
        prepare_jax()
        algorithm = algorithm_of(version.manifest)
        self._columns = replace(columns_from(version.manifest), logarithmic=algorithm.logarithmic)
        self._pull = pull
        num_labels = len(self._columns.labels) if self._columns.standardised else 0
        self._scales = Scales.of(moments_of_version(version, self._columns), num_labels)
        self._step = score_step(algorithm)
        self._pairs = algorithm.pairs
        self._learned = None
        if algorithm.learner is not None:
            self._learned = algorithm.learner.load(read_package(version.package)), column_names(self._columns)
        self._sizes = padding() if sizes is None else sizes

    @property
    def compiles(self) -> bool:
        """Whether a program is compiled for each shape."""
        return self._learned is None

    def predict(self, table: pa.Table) -> NDArray[np.float32]:
        """Return the predictions of some rows, float32[rows, num_labels], or their vectors.

        Args:
            table: has the model's columns by their names, with other case or not as `matched` says, in the types of its slots.

        Raises:
            DataError: a value cannot be encoded; names the column.
        """
        if not table.num_rows:
            return np.empty((0, max(1, len(self._columns.labels))), np.float32)
        return self._predictions(self._encoded(table))

    def score(self, request: Request, splits: Sequence[Split]) -> Iterator[Scored]:
        """Score the rows of some splits, in order."""
        inputs, carried = request.inputs, list(request.carried)
        wanted = list(dict.fromkeys([*inputs.values(), *carried]))

        def chunks() -> Generator[tuple[pa.Table, list[Batch]], None, None]:
            for split in splits:
                for table in request.scan.read(split, wanted, chunk_rows(BATCH_SIZES[-1])):
                    if table.num_rows:  # else a filter left nothing of the piece
                        features = table.select(list(inputs.values())).rename_columns(list(inputs))
                        yield table.select(carried), self._encoded(features)

        with Ahead(chunks, AHEAD_CHUNKS) as ahead:
            for table, encoded in ahead:
                yield Scored(table, self._predictions(encoded))

    def write(self, request: Request, splits: Sequence[Split], path: Path) -> Iterator[int]:
        """Write the rows of some splits with their predictions, and yield how many as they are written."""
        with pq.ParquetWriter(path, request.schema, compression="lz4", use_dictionary=list(request.carried)) as writer:
            for rows, predictions in self.score(request, splits):
                added = columns_of(predictions, request.embeds)
                writer.write_table(pa.table([*rows.columns, *added], names=request.schema.names).cast(request.schema))
                yield len(predictions)

    def compile(self, row: pa.Table, shape: Shape) -> None:
        """Compile the program of a shape, unless it is there.

        Args:
            row: any row, as `predict` takes it.
        """
        like = self._encoded(row)[0]
        codes = np.zeros(shape.values, np.int32)
        self._predict(
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
            )
        )

    def _encoded(self, table: pa.Table) -> list[Batch]:
        """Return rows as batches of one size."""
        chunk = encode(table, self._columns, with_labels=False)
        if self._pairs is not None:
            chunk = paired(chunk, self._pairs)
        sizes = self._sizes.batch_sizes
        size = next((size for size in sizes if table.num_rows <= size), sizes[-1])
        return list(batches(chunk, size, BatchId(), self._sizes.ladders(size)))

    def _predictions(self, encoded: Sequence[Batch]) -> NDArray[np.float32]:
        predictions = [self._predict(batch) for batch in encoded]
        return predictions[0] if len(predictions) == 1 else np.concatenate(predictions)

    def _predict(self, batch: Batch) -> NDArray[np.float32]:
        if self._learned is not None:
            predict, names = self._learned
            numbers = self._pull(batch.keys, batch.size).weights[TABLE][:, 0]
            return predict(matrix_of(batch, numbers, names))[:, None]
        dense = scale(batch.dense, self._scales.slots, len(batch.weight))
        pulled = self._pull(batch.keys, batch.size)
        parameters = {**pulled.weights, **pulled.dense}
        predictions = self._step(parameters, inputs_of(batch, dense, None), offered_of(batch, pulled.offered))
        return self._scales.restored(np.asarray(predictions)[: batch.examples])


def columns_of(predictions: NDArray[np.float32], embeds: bool) -> list[pa.Array]:
    """Return predictions as columns: DOUBLE each, or one of vectors."""
    if embeds:
        return [pa.FixedSizeListArray.from_arrays(pa.array(predictions.reshape(-1)), predictions.shape[1])]
    return [pa.array(line.astype(np.float64)) for line in predictions.T]
