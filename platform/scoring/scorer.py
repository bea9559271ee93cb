"""Scoring rows with a version: as sums over features by native code, or by its algorithm, with the rows of its features from
wherever they are."""

from __future__ import annotations

import dataclasses
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.sums import Sums
from ...warehouse.entries import Split
from ...warehouse.manifest import Manifest
from ..engines.base import Scan
from ..engines.repeats import expanded
from ..input.batches import Batch, Ladders, batches
from ..input.columns import Classes, Columns, columns_from, columns_in
from ..input.encode import encode
from ..input.prefetch import Ahead
from ..input.scaling import Scales, moments_in, scale
from ..input.side.versions import located
from ..input.splits import chunk_rows
from ..ps._native import score_sums
from ..ps.compiled.ladder import Ladder
from ..ps.messages import BatchId, Keys, Pulled
from ..training.online.outputs import Said
from ..training.profiles.calibrators import calibrators_of
from ..training.profiles.intervals import Width
from .rows import as_column, joined, write_rows

if TYPE_CHECKING:
    from ...algorithms.chunk import Chunk
    from ...algorithms.learns import Output
    from ...warehouse.version import Version
    from .attributions import MeanScores

BATCH_SIZES = (1, 16, 128, 1024, 4096)
"""Default numbers of rows scored at once: the least that holds a table, else the last."""
AHEAD_CHUNKS = 1


class Request(NamedTuple):
    """The rows to score, and the columns to return with their predictions; travels by pickle.

    Attributes:
        inputs: the model's column -> the scan's.
        carried: columns of the scan that the result has beside predictions.
        schema: of the result.
        top: how many attributions explain a prediction; None: none are wanted.
        reference: what they are measured from; None: an example without slots, or what a package measures from.
        widths: of the intervals of predictions; empty: none are wanted.
    """

    version: Version
    scan: Scan
    splits: list[Split]
    inputs: Mapping[str, str]
    carried: tuple[str, ...]
    schema: pa.Schema
    top: int | None
    reference: MeanScores | None = None
    widths: tuple[Width, ...] = ()

    @property
    def num_labels(self) -> int:
        """How many columns of predictions there are, after those carried and before other outputs."""
        return len(self.version.manifest.roles.labels)


class Scored(NamedTuple):
    """A chunk of rows, the columns carried, and the model's outputs.

    Attributes:
        predictions: float32[rows, num_labels], for a label with classes float32[rows, classes]; empty for a model without
            labels.
        classes: the label's classes, where it has some.
        outputs: by name, float32[rows], or float32[rows, k] of a vector.
        widths: of the intervals of predictions; empty: none are wanted.
    """

    rows: pa.Table
    predictions: NDArray[np.float32]
    outputs: Mapping[str, NDArray[np.float32]]
    classes: Classes | None = None
    widths: tuple[Width, ...] = ()

    @property
    def columns(self) -> list[pa.Array]:
        """Predictions and outputs as columns: DOUBLE each, or one of vectors; for classes the likeliest, and a map of all
        probabilities; then the bounds of intervals."""
        if self.classes is not None:
            return [*self.classes.as_columns(self.predictions), *map(as_column, self.outputs.values())]
        lines = [line.astype(np.float64) for line in self.predictions.T]
        return [*map(pa.array, lines), *map(as_column, self.outputs.values()), *map(pa.array, self.bounds)]

    @property
    def bounds(self) -> list[NDArray[np.float64]]:
        """The bounds of intervals: of each label low and high."""
        lines = (line.astype(np.float64) for line in self.predictions.T)
        return [
            bound
            for line, width in zip(lines, self.widths, strict=False)
            for bound in (np.maximum(line - width.below, width.least), line + width.above)
        ]


class Padding(NamedTuple):
    """The sizes that rows are padded to.

    Attributes:
        batch_sizes: how many rows are scored at once, ascending: the least that holds a table, else the last.
        ladders: gives the sizes of the other arrays for a batch size.
        shares: what rows make of histories that are the same in all of them may be computed once, by programs of its own.
    """

    batch_sizes: tuple[int, ...]
    ladders: Callable[[int], Ladders]
    shares: bool = False


class Shape(NamedTuple):
    """The sizes of arrays that a program is compiled for: rows of a batch, rows of features, values of multi-valued slots; and
    whether all rows have the same histories."""

    batch: int
    features: int
    values: int
    shared: bool = False


def padding() -> Padding:
    """Return sizes that grow with what is scored: a program is compiled when the first rows need it."""
    shared = Ladders(Ladder(), Ladder())
    return Padding(BATCH_SIZES, lambda batch: shared)


Pull = Callable[[Keys, int], Pulled]
"""Gives the parameters of unique keys, padded to a size."""


class Scorer(ABC):
    """Scores rows with a version: `predict` a table, `score` and `write` the rows of a scan. Threads may share it.

    Args:
        sizes: what rows are padded to; None: as `padding`.

    Attributes:
        scales: what continuous slots are standardised by, and labels.
        calibrators: what makes predictions of what the model says; None: they are that.

    Raises:
        StatementError, ModelError: the version's parts or files cannot be used.
    """

    def __init__(self, version: Version, pull: Pull, sizes: Padding | None) -> None:
        self._columns = located(columns_in(version), version.manifest, version)
        self._pull, self._sizes = pull, padding() if sizes is None else sizes
        num_labels = len(self._columns.labels) if self._columns.standardised else 0
        self.scales = Scales.of(moments_in(version.manifest, self._columns), num_labels)
        self._outputs, self.calibrators = outputs_of(version.manifest), calibrators_of(version, self._columns)

    @abstractmethod
    def _chunk(self, table: pa.Table) -> Chunk:
        """Encode rows."""

    @abstractmethod
    def _say(self, batch: Batch) -> Said:
        """Score a batch."""

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
            return self.said(table, self.encoded(table))
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
            rows = chunk_rows(BATCH_SIZES[-1])
            tables = itertools.chain.from_iterable(request.scan.read(split, wanted, rows) for split in splits)
            for table in tables:
                if table.num_rows:  # else a filter left nothing of the piece
                    features = table.select(list(inputs.values())).rename_columns(list(inputs))
                    yield expanded(table.select(carried)), self.encoded(features)

        with Ahead(chunks, AHEAD_CHUNKS) as ahead:
            yield from ahead

    def said(self, rows: pa.Table, encoded: Sequence[Batch]) -> Scored:
        """Score encoded rows."""
        said = [self._calibrated(self._say(batch), batch) for batch in encoded]
        predictions, names = [one.predictions for one in said], said[0].outputs
        return Scored(
            rows,
            joined(predictions),
            {name: joined([one.outputs[name] for one in said]) for name in names},
            self._columns.classes,
        )

    def _calibrated(self, said: Said, batch: Batch) -> Said:
        if self.calibrators is None or said.predictions is None:
            return said
        return said._replace(predictions=self.calibrators.of(said.predictions, batch))

    def write(self, request: Request, splits: Sequence[Split], path: Path) -> Iterator[int]:
        """Write the rows of some splits with their predictions, and yield how many as they are written."""
        scored = (one._replace(widths=request.widths) for one in self.score(request, splits))
        pieces = ((one.rows, one.columns, len(one.predictions)) for one in scored)
        return write_rows(pieces, request.schema, request.carried, path)

    def encoded(self, table: pa.Table) -> list[Batch]:
        """Return rows as batches of one size; see `predict`."""
        chunk = self._chunk(table)
        sizes = self._sizes.batch_sizes
        size = next((size for size in sizes if table.num_rows <= size), sizes[-1])
        return list(batches(chunk, size, BatchId(), self._sizes.ladders(size)))


class SumsScorer(Scorer):
    """Scores rows with a version whose scores are sums over features, without its algorithm and JAX.

    Attributes:
        sums: over which.
    """

    def __init__(self, version: Version, pull: Pull, sizes: Padding | None, sums: Sums) -> None:
        super().__init__(version, pull, sizes)
        self.sums, self._dense_slots = sums, np.array(list(slots_of_dense(self._columns)), np.int32)

    def _chunk(self, table: pa.Table) -> Chunk:
        return encode(table, self._columns, with_labels=False)

    def _say(self, batch: Batch) -> Said:
        sums, columns = self.sums, self._columns
        dense, rows = scale(batch.dense, self.scales.slots, len(batch.weight)), self._pull(batch.keys, batch.size).weights
        vectors = None if sums.vectors is None else rows[sums.vectors]
        bags: Any = batch.bags
        rows_of, example, slot, weight = bags
        numbers = (dense, batch.dense_index, self._dense_slots)
        how = (sums.link, sums.pooling, sums.fields)
        found = score_sums(
            rows[sums.weights],
            vectors,
            batch.scalar,
            columns.intercept,
            rows_of,
            example,
            slot,
            weight,
            len(columns.bags),
            *numbers,
            *how,
        )
        return Said(self.scales.restored(found[: batch.examples]), {})


def sums_of_version(manifest: Manifest) -> Sums | None:
    """Return the sums that a version's scores are; None where they are more than that."""
    if manifest.sums is not None:
        return Sums(**dataclasses.asdict(manifest.sums))
    from ..training.recipe import algorithm_of, sums_of_scores  # imports JAX

    return sums_of_scores(algorithm_of(manifest), columns_from(manifest))


def outputs_of(manifest: Manifest) -> Mapping[str, Output]:
    """Return what a version's algorithm says beside predictions, by name."""
    if manifest.sums is not None:
        return {}
    from ..training.recipe import algorithm_of  # imports JAX

    return algorithm_of(manifest).outputs


def predictions_of(version: Version) -> list[pa.Field]:
    """Return the columns that scoring adds: predictions, then other outputs of the algorithm."""
    columns = columns_from(version.manifest)
    kinds: dict[str, pa.DataType] = dict.fromkeys(columns.labels, pa.float64())
    if columns.classes is not None:
        (label,), kind = columns.labels, columns.classes.arrow_type
        kinds = {label: kind, f"{label}_probabilities": pa.map_(kind, pa.float64())}
    outputs = outputs_of(version.manifest)
    kinds |= {name: type_of(output) for name, output in outputs.items()}
    return [pa.field(f"predicted_{name}", kind) for name, kind in kinds.items()]


def type_of(output: Output) -> pa.DataType:
    """Return the type of an output's column."""
    return pa.list_(pa.float32()) if output.vector else pa.int64() if output.whole else pa.float64()


def slots_of_dense(columns: Columns) -> Iterator[int]:
    """Give the slot of each dense input, counted: continuous ones, then the elements of those that are dense vectors."""
    yield from range(len(columns.continuous))
    for number, slot in enumerate(columns.vectors, len(columns.continuous)):
        yield from [number] * slot.dim
