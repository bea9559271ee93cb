"""A version in memory, ready to score: loaded, and every program that requests need compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from ..input.batches import Ladders
from ..input.columns import Columns, columns_from
from ..ps.ladder import LOWEST, Ladder, rung
from ..scoring.prediction import predictions_of
from ..scoring.scorer import Padding, Scorer, Shape
from ..scoring.weights import Weights
from .inputs import Input

if TYPE_CHECKING:
    from ...warehouse.version import Version

BATCH_SIZES = (1, 16, 128, 1024)
VALUES_PER_ROW = (8, 64)
"""Values of multi-valued slots per row of a batch that programs are compiled for; more take a slow first request."""
STEP = 8
"""Rows of features of a program are at most so many times those that a batch has, where all have fewer than they could."""


class Preset(Ladder):
    """Sizes that are known before; those beyond are added as they come."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self._preset = sizes

    def size(self, n: int) -> int:
        """Return the padded size for n entries; see Ladder."""
        return next((size for size in self._preset if size >= n), 0) or super().size(n)


def shapes_of(columns: Columns, batch: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of a batch's rows of features, and of its values of multi-valued slots."""
    lines = len(columns.scalar) + columns.intercept + sum(slot.length for slot in columns.slots)
    fixed = sum(max(slot.dim, 1) for slot in columns.slots) + len(columns.offered) + 1
    values = tuple(rung(batch * count) for count in VALUES_PER_ROW) if columns.bags else (0,)
    tops = sorted({rung(batch * lines + fixed + count) for count in values})
    rows: list[int] = []
    for top in tops:
        rows.append(top)
        while rows[-1] > STEP * LOWEST:
            rows.append(rung(rows[-1] // STEP))
    return tuple(sorted(set(rows))), values


def sizes_of(columns: Columns) -> Padding:
    """Return the sizes that rows of requests are padded to."""
    ladders = {}
    for batch in BATCH_SIZES:
        rows, values = shapes_of(columns, batch)
        ladders[batch] = Ladders(Preset(rows), Preset(values), longest)
    return Padding(BATCH_SIZES, ladders.__getitem__)


def longest(elements: int, most: int) -> int:
    """Return the length that histories are padded to: always `most`, so that a program serves requests of any."""
    return most


def programs_of(columns: Columns) -> Iterator[Shape]:
    """Yield the shapes that requests can need."""
    for batch in BATCH_SIZES:
        rows, values = shapes_of(columns, batch)
        for count in values:
            yield from (Shape(batch, size, count) for size in rows)


class Loaded:
    """A version that scores requests; never changes. Threads may share it.

    Args:
        version: its files are needed while it is made, not after.
        told: called for each program that is compiled.

    Attributes:
        model, number, training: which version it is.
        inputs: the columns that it scores.
        outputs: the columns of its predictions.
        created: when its training began, where the manifest tells; since: when it was loaded.

    Raises:
        ModelError, StatementError: its parts or files cannot be used.
    """

    def __init__(self, version: Version, told: Callable[[], None] = lambda: None) -> None:
        manifest = version.manifest
        self.model, self.number, self.training = manifest.model, version.number, manifest.training
        self.columns = columns_from(manifest)
        self.inputs = tuple(map(Input.of, {slot.column: slot for slot in self.columns.slots}.values()))
        self.outputs = tuple(predictions_of(version))
        self.created = manifest.finished or manifest.created
        self._scorer = Scorer(version, Weights(version, 0, 1).pull, sizes_of(self.columns))
        row = pa.table([pa.nulls(1, column.type) for column in self.inputs], names=[column.name for column in self.inputs])
        self._scorer.predict(row)
        if self._scorer.compiles:
            for shape in programs_of(self.columns):
                self._scorer.compile(row, shape)
                told()
        self.since = datetime.now(UTC)

    def predict(self, table: pa.Table) -> dict[str, pa.Array]:
        """Return the predictions of rows, by name; see ML.PREDICT.

        Args:
            table: has the columns of `inputs`, in their types.

        Raises:
            DataError: a value cannot be encoded.
        """
        columns = self._scorer.scored(table).columns
        return dict(zip((field.name for field in self.outputs), columns, strict=True))
