"""Rows of requests without a table in between: the scorer of a version whose scores are sums, and batches of a network."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.sums import Sums
from ..images.image import ImageWeights
from ..input.batches import Batch
from ..input.columns import INTERCEPT, Columns
from ..input.kinds import kind_named
from ..input.kinds.continuous import on_logarithms
from ..input.runs.groups import Values, bag_rows
from ..input.scaling import Scales, deviation
from ..ps._native import RowEncoder, RowScorer
from ..ps.compiled.aligned import filled
from ..ps.keys import slot_seed
from ..row_programs.refusals import LacksError
from ..scoring.scorer import Padding
from .inputs import Input

LETTERS = {
    pa.string(): "s", pa.bool_(): "b", pa.date32(): "d", pa.int64(): "l", pa.int32(): "i", pa.int16(): "h", pa.int8(): "c",
    pa.float32(): "f", pa.float64(): "f",
}  # fmt: skip
Ints = NDArray[np.int32]
Encoded = tuple[NDArray[np.uint64], Ints, Ints, Ints, Ints, NDArray[np.float32], NDArray[np.float32], Ints]
Described = list[tuple[str, str, str, int, bool, bool, bool, int, float, float]]


def row_scorer(sums: Sums, described: Described, weights: ImageWeights, columns: Columns) -> RowScorer:
    """Return the scorer of rows of a version whose scores are sums."""
    vectors = None if sums.vectors is None else weights.part(sums.vectors)
    return RowScorer(
        described, weights.part(sums.weights), vectors, intercept_of(columns), sums.link, sums.pooling, sums.fields
    )


def described_columns(columns: Columns, inputs: Sequence[Input], scales: Scales, computed: Collection[str]) -> Described:
    """Return the columns that are scored for native code, crosses behind all others.

    Args:
        computed: the names of those that are made of others; their decimals are doubles.

    Raises:
        LacksError: it cannot read one; the text says which.
    """
    if columns.histories:
        raise LacksError(f"the stored history {columns.histories[0].entry.name}")
    means, deviations = iter(scales.slots.mean.tolist()), iter(deviation(scales.slots).tolist())
    described: Described = []
    for column, slot in ((column, column.slot) for column in inputs if column.slot is not None):
        kind, letter = kind_named(slot.kind), LETTERS.get(element_of(column.type))
        if pa.types.is_decimal(column.type) and column.name in computed:
            letter = "f"
        if kind.native is None or letter is None:
            raise LacksError(f"the column {column.name} is {slot.kind} ({slot.type})")
        scale = (next(means), next(deviations)) if slot in columns.continuous else (0.0, 1.0)
        seed = slot_seed(slot.source if kind.features else slot.name)
        described.append(
            (kind.native, slot.name, letter, seed, slot.hashed, slot.raw, columns.null_features, slot.dim or 1, *scale)
        )
    for slot in columns.crosses:
        native = kind_named(slot.kind).native
        assert native is not None  # crosses are categories, or bags of them
        described.append((native, slot.name, "s", slot_seed(slot.source), False, False, columns.null_features, 1, 0.0, 1.0))
    return described


def intercept_of(columns: Columns) -> int | None:
    """Return the key of the intercept; None for none."""
    return slot_seed(INTERCEPT) if columns.intercept else None


class RowBatches:
    """Rows of requests as batches of a network, made natively; None where a table has to be made of a row first.

    Args:
        columns, inputs: of the version.
        sizes: what rows are padded to.
        logarithmic: numbers are taken on a logarithmic scale.
    """

    def __init__(self, described: Described, columns: Columns, sizes: Padding, logarithmic: bool) -> None:
        self._encoder = RowEncoder(described, intercept_of(columns))
        self._lines = len(columns.scalar) + columns.intercept
        self._bags, self._sizes = bool(columns.bags), sizes
        self._logarithms = len(columns.continuous) if logarithmic else 0

    def of_objects(self, rows: list[dict[str, Any]], context: dict[str, Any] | None) -> Batch | None:
        """Return rows of JSON as a batch; see RowScorer."""
        size = self._size(len(rows))
        return None if size is None else self._batch(self._encoder.encode_objects(rows, context, size), len(rows), size)

    def of_arrow(self, batch: pa.RecordBatch, order: Sequence[int]) -> Batch | None:
        """Return rows of Arrow as a batch; see RowScorer."""
        size = self._size(batch.num_rows)
        if size is None:
            return None
        return self._batch(self._encoder.encode_arrow(batch.__arrow_c_array__(), order, size), batch.num_rows, size)

    def _size(self, rows: int) -> int | None:
        return next((size for size in self._sizes.batch_sizes if 0 < rows <= size), None)

    def _batch(self, encoded: Encoded | None, rows: int, size: int) -> Batch | None:
        if encoded is None:
            return None
        keys, scalar, index, example, slot, weight, dense, dense_index = encoded
        dense = dense.reshape(len(dense_index), rows)
        if self._logarithms:
            dense[: self._logarithms] = on_logarithms(dense[: self._logarithms])
        m, ladders = len(keys), self._sizes.ladders(size)
        bags = bag_rows(index, Values(index, example, slot, weight), ladders.values.size(len(index)) if self._bags else 0, m)
        weights, label = filled(np.ones(rows, np.float32), size), np.zeros((0, size), np.float32)
        lines = scalar.reshape(self._lines, size)
        return Batch(rows, keys, ladders.rows.size(m + 1), lines, bags, dense, dense_index, label, weights)


def element_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, of an array's elements or a map's keys."""
    if pa.types.is_map(kind):
        return kind.key_type
    return kind.value_type if pa.types.is_list(kind) else kind
