"""A version in memory, ready to score: loaded, and every program that requests need compiled."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.blocks.searched import SEARCHED
from ..engines.repeats import expanded
from ..images.image import ImageWeights
from ..input.batches import Batch, Ladders
from ..input.columns import Columns, columns_in
from ..ps._native import RowScorer
from ..ps.compiled.ladder import LOWEST, Ladder, rung
from ..row_programs.refusals import LacksError
from ..scoring.prediction import bounds_of, intervals_of
from ..scoring.scorer import Padding, Scored, Shape, SumsScorer, predictions_of
from ..scoring.scorer_cache import scorer_of
from ..training.clauses.transform import TRANSFORM
from ..training.profiles.stored import profiled, profiles_in
from .arrow_stream import StreamReader
from .computed.transformed import features_of, inputs_of
from .inputs import by_lower_name
from .moments import moments_of, now_in, scored_columns
from .rows import Described, RowBatches, described_columns, row_scorer

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from .computed.request_features import RequestFeatures

BATCH_SIZES = (1, 16, 128, 1024)
VALUES_PER_ROW = (8, 64)
"""Values of multi-valued slots per row of a batch that programs are compiled for; more take a slow first request."""
NO_ROWS = pa.table({})
STEP = 8
COSTED = 5
"""A program is padded to at most so many times a batch's rows of features."""


class Preset(Ladder):
    """Sizes that are known before; larger ones are added as needed."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self._preset = sizes

    def size(self, n: int) -> int:
        """Return the padded size for n entries; see Ladder."""
        return next((size for size in self._preset if size >= n), 0) or super().size(n)


def shapes_of(columns: Columns, batch: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of a batch's rows of features, and of its values of multi-valued slots."""
    values = tuple(rung(batch * count) for count in VALUES_PER_ROW) if columns.bags else (0,)
    tops = sorted({most_features(columns, batch, batch, count) for count in values})
    rows: list[int] = []
    for top in tops:
        rows.append(top)
        while rows[-1] > STEP * LOWEST:
            rows.append(rung(rows[-1] // STEP))
    return tuple(sorted(set(rows))), values


def most_features(columns: Columns, batch: int, histories: int, values: int) -> int:
    """Return the padded number of rows of features that a batch has at most.

    Args:
        histories: how many distinct ones it has; of those that are searched, a request has one.
        values: of multi-valued slots.
    """
    sequences = (record for block, records in columns.blocks if block.rows for record in records)
    lengths = [(slot.length, 1 if slot.role == SEARCHED else histories) for record in sequences for slot, _ in record]
    fixed = sum(max(slot.dim, 1) for slot in columns.slots) + len(columns.offered) + 1
    return rung(batch * (len(columns.scalar) + columns.intercept) + sum(n * times for n, times in lengths) + fixed + values)


def sizes_of(columns: Columns) -> Padding:
    """Return the sizes that rows of requests are padded to."""
    ladders = {}
    for batch in BATCH_SIZES:
        rows, values = shapes_of(columns, batch)
        ladders[batch] = Ladders(Preset(rows), Preset(values), longest)
    return Padding(BATCH_SIZES, ladders.__getitem__, shares=True)


def longest(elements: int, most: int) -> int:
    """Return the length that histories and arrays are padded to: always `most`, so that a program serves requests of any."""
    return most


def programs_of(columns: Columns, shares: bool) -> Iterator[Shape]:
    """Yield the shapes that requests can need.

    Args:
        shares: there are programs for rows with the same histories.
    """
    for batch in BATCH_SIZES:
        rows, values = shapes_of(columns, batch)
        for count in values:
            yield from (Shape(batch, size, count) for size in rows)
            if shares and batch > 1:
                most = most_features(columns, batch, 1, count)
                large = next(size for size in rows if size >= most)
                yield from (Shape(batch, size, count, shared=True) for size in rows if size <= large)


class Loaded:
    """A version that scores requests; never changes. Threads may share it.

    Args:
        version: its files are needed while it is made, not after.
        weights: its rows.
        level: of the intervals of its predictions; None: they have none.

    Attributes:
        model, number, training: which version it is.
        inputs: the columns that requests have; streams: reads them from streams of Arrow.
        features: makes the columns that are scored of a table of them.
        predictions: the columns of its predictions; probabilities: they are some; outputs: they, and bounds of intervals.
        profiles: of the rows that it learned; None where it keeps none. profiled: what is profiled of others to compare.
        by_table: why requests are scored by way of a table, and what that costs; None where they are not.
        created: when its training began, where the manifest has it; since: when it was loaded.

    Raises:
        ModelError, StatementError: its parts or files cannot be used.
    """

    def __init__(self, version: Version, weights: ImageWeights, level: float | None = None) -> None:
        manifest = version.manifest
        self.model, self.number, self.training = manifest.model, version.number, manifest.training
        self.columns = columns_in(version)
        features = scored_columns(self.columns)
        self._moments = moments_of(self.columns)
        transform = TRANSFORM.kept(manifest)
        self.inputs = inputs_of(features, transform)
        self.features = features_of(features, self.inputs, transform)
        self.streams = StreamReader(self.inputs)
        self._widths = () if level is None else intervals_of(version, level)
        self.predictions = tuple(predictions_of(version))
        self.outputs = (*self.predictions, *bounds_of(version, self._widths))
        self.created = manifest.finished or manifest.created
        self.weights, self._lacks = weights, "its algorithm needs one"
        self.profiles = profiles_in(version) or None
        sizes = sizes_of(self.columns)
        self._scorer = scorer = scorer_of(version, weights.pull, sizes)
        self._rows: RowScorer | None = None
        self._batches: RowBatches | None = None
        row = pa.table([pa.nulls(1, column.type) for column in self.inputs], names=[column.name for column in self.inputs])
        nulls, row = row, self.features(row)
        scorer.predict(row)
        self._computed: RequestFeatures | None = None
        described: Described | None = None
        try:
            if transform is not None or self.columns.crosses:
                from .computed.request_features import RequestFeatures  # brings sqlglot, which plain rows do without

                self._computed = RequestFeatures(
                    self.columns, self.inputs, dict(zip(row.schema.names, row.schema.types, strict=True)), transform
                )
            names = () if self._computed is None else self._computed.names
            described = described_columns(self.columns, features, scorer.scales, names)
        except LacksError as error:
            self._lacks = str(error)
        if isinstance(scorer, SumsScorer):
            if described is not None and scorer.calibrators is None:
                self._rows = row_scorer(scorer.sums, described, weights, self.columns)
            elif described is not None:  # whose biases need the keys of rows
                self._batches = RowBatches(described, self.columns, sizes, False)
            self.probabilities = scorer.sums.link == "sigmoid"
        else:
            from ..scoring.by_algorithm import AlgorithmScorer  # which imports JAX, as its maker did

            assert isinstance(scorer, AlgorithmScorer)
            self.probabilities = scorer.probabilities
            if described is not None and scorer.plain:
                self._batches = RowBatches(described, self.columns, sizes, scorer.logarithmic)
            for shape in programs_of(self.columns, scorer.shares) if scorer.compiles else ():
                scorer.compile(row, shape)
        self.by_table = None
        if not (self._rows or self._batches):
            self._computed, self.by_table = None, self._cost(nulls)
        numbers = not self.columns.labels or self.columns.classes is not None
        self.profiled = profiled(self.columns, 0 if numbers else len(self.columns.labels), self.probabilities)
        self.since = datetime.now(UTC)

    def timed(self, rows: Sequence[Mapping[str, Any]], context: dict[str, Any]) -> dict[str, Any]:
        """Return what rows of a request have in common, with the time by which stored histories are read where none is given:
        now, or after all events where times are numbers."""
        for name, kind in self._moments.items():
            if name.lower() not in by_lower_name(context) and not any(name.lower() in by_lower_name(row) for row in rows[:1]):
                context = {**context, name: now_in(kind)}
        return context

    def predict(self, table: pa.Table) -> dict[str, pa.Array]:
        """Return the predictions of rows, by name; see ML.PREDICT.

        Args:
            table: has the columns of `inputs`, in their types.

        Raises:
            DataError: a value cannot be encoded.
            ModelError: a file of the version was cut off meanwhile; so of the other ways to predict.
        """
        if self._computed is not None and table.num_rows <= self._computed.most_rows:
            with suppress(ValueError, OverflowError):  # times that Python does not have
                if (found := self.predict_objects(expanded(table).to_pylist(), None)) is not None:
                    return found
        return self._named(self._scorer.scored(self.features(table)))

    def _cost(self, row: pa.Table) -> str:
        """Return why requests go by way of a table, and how long one with a row takes by it."""
        seconds = []
        for _ in range(COSTED):
            began = time.perf_counter()
            self._scorer.predict(self.features(row))
            seconds.append(time.perf_counter() - began)
        return f"{1000 * min(seconds):.2g} ms a request: {self._lacks}"

    def encoded(self, table: pa.Table) -> list[Batch]:
        """Return the rows of a table of `inputs` as batches."""
        return self._scorer.encoded(self.features(table))

    def predict_objects(self, rows: list[dict[str, Any]], context: dict[str, Any] | None) -> dict[str, pa.Array] | None:
        """Return the predictions of rows of JSON; None where a table has to be made of them, to be scored or refused.

        Args:
            context: columns that all rows have in common.
        """
        if self._computed is not None:
            if (made := self._computed.of(rows, context)) is None:
                return None
            rows, context = made
        if self._batches is not None:
            return self._said(self._batches.of_objects(rows, context))
        return self._shaped(None if self._rows is None else self._rows.score_objects(rows, context))

    def predict_batches(self, batches: Sequence[pa.RecordBatch], order: Sequence[int]) -> dict[str, pa.Array] | None:
        """Return the predictions of rows of Arrow; see predict_objects.

        Args:
            batches: validated; one at least.
            order: which of their columns each of `inputs` is, in its type or as a dictionary of that.

        Raises:
            ValueError: memory of the batches leads out of itself.
        """
        if self._computed is not None:
            return None
        if self._batches is not None and len(batches) == 1:
            return self._said(self._batches.of_arrow(batches[0], order))
        if self._rows is None:
            return None
        found = [self._rows.score_arrow(batch.__arrow_c_array__(), order) for batch in batches]
        scored = [predictions for predictions in found if predictions is not None]
        return self._shaped(np.concatenate(scored) if len(scored) == len(batches) else None)

    def _said(self, batch: Batch | None) -> dict[str, pa.Array] | None:
        return None if batch is None else self._named(self._scorer.said(NO_ROWS, [batch]))

    def _shaped(self, predictions: NDArray[np.float32] | None) -> dict[str, pa.Array] | None:
        if predictions is None:
            return None
        restored = self._scorer.scales.restored(predictions.reshape(-1, len(self.predictions)))
        return self._named(Scored(NO_ROWS, restored, {}, self.columns.classes))

    def _named(self, scored: Scored) -> dict[str, pa.Array]:
        self.weights.check()
        columns = scored._replace(widths=self._widths).columns
        return dict(zip((field.name for field in self.outputs), columns, strict=True))
