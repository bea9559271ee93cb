"""Slots of arrays of vectors, any number per example, all of one length, such as the frames of a film."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.blocks.vector_arrays import VECTOR_ARRAYS, VectorArrays
from ..slot import Slot
from .base import BlockKind, Encoding, SizedKind
from .sequence import last_of
from .types import is_list, is_number, lengths_of
from .vector import vector_lines


class VectorArray(BlockKind, SizedKind):
    """The last `length` vectors of an array, in order; a NULL vector is absent and keeps its place, a NULL array has none.

    The column is named by an option with the role `vectors`.
    """

    name = "vector_array"
    types = "arrays of vectors, array<array<float>>"
    role = "vectors"
    features = False
    raw = True
    block = VECTOR_ARRAYS

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return role == self.role and is_list(type) and is_list(type.value_type) and is_number(type.value_type.value_type)

    def vectors(self, column: pa.Array) -> tuple[pa.Array, NDArray[np.intp]]:
        return column.flatten(), np.repeat(np.arange(len(column)), lengths_of(column))

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> VectorArrays:
        array = column.combine_chunks()
        lengths = lengths_of(array)
        fitting = f"WHERE forall({slot.name}, v -> v IS NULL OR size(v) = {slot.dim})"
        values = vector_lines(last_of(array.flatten(), lengths, slot.length), slot, fitting)
        offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, slot.length))]).astype(np.int64)
        return VectorArrays(values, offsets, slot.length)


VECTOR_ARRAY = VectorArray()
