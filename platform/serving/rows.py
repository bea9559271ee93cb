"""The native scorer of a version whose scores are sums, over its images."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...algorithms.base import Sums
from ..images.image import ImageWeights
from ..input.columns import INTERCEPT, Columns
from ..input.kinds import kind_named
from ..input.kinds.base import SequenceKind
from ..input.scaling import Scales, deviation
from ..ps._native import RowScorer
from ..ps.keys import slot_seed
from .inputs import Input

LETTERS = {
    pa.string(): "s", pa.bool_(): "b", pa.date32(): "d", pa.int64(): "l", pa.int32(): "i", pa.int16(): "h", pa.int8(): "c",
    pa.float32(): "f", pa.float64(): "f",
}  # fmt: skip


def row_scorer(
    sums: Sums, weights: ImageWeights, columns: Columns, inputs: Sequence[Input], scales: Scales
) -> RowScorer | None:
    """Return the scorer of a version; None where a column has a type that it does not read, or is crossed."""
    slots = [column.slot for column in inputs if column.slot is not None]
    letters = [LETTERS.get(element_of(column.type)) for column in inputs]
    if None in letters or columns.crosses or any(isinstance(kind_named(slot.kind), SequenceKind) for slot in slots):
        return None
    means, deviations = iter(scales.slots.mean.tolist()), iter(deviation(scales.slots).tolist())
    described = []
    for slot, letter in zip(slots, letters, strict=True):
        own = not kind_named(slot.kind).features
        scale = (next(means), next(deviations)) if slot in columns.continuous else (0.0, 1.0)
        seed = slot_seed(slot.name if own else slot.source)
        described.append(
            (slot.kind, slot.name, letter or "", seed, slot.hashed, slot.raw, columns.null_features, slot.dim or 1, *scale)
        )
    vectors = None if sums.vectors is None else weights.part(sums.vectors)
    intercept = slot_seed(INTERCEPT) if columns.intercept else None
    return RowScorer(described, weights.part(sums.weights), vectors, intercept, sums.link, sums.pooling, sums.fields)


def element_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, of an array's elements or a map's keys."""
    if pa.types.is_map(kind):
        return kind.key_type
    return kind.value_type if pa.types.is_list(kind) else kind
