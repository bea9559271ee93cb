"""Vector slots: arrays of numbers, all of one length."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import DataError
from ...ps.keys import hashed_keys
from ..numbers import floats
from ..slot import Slot
from .base import DenseKind, Encoding, Lines, SizedKind
from .types import is_list, is_number


class Vector(DenseKind, SizedKind):
    """A vector per example, whose elements are learned as they are; a NULL vector is absent."""

    name = "vector"
    types = "array<float> a vector"
    native = "vector"
    raw = True

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return not role and is_list(type) and is_number(type.value_type)

    def vectors(self, column: pa.Array) -> tuple[pa.Array, NDArray[np.intp]]:
        return column, np.arange(len(column))

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> Lines:
        lines = vector_lines(column.combine_chunks(), slot, f"WHERE size({slot.name}) = {slot.dim}").T
        return Lines(list(lines), encoding.add(hashed_keys(slot.name, pa.array(np.arange(len(lines)))), slot))


def vector_lines(array: pa.Array, slot: Slot, fitting: str) -> NDArray[np.float32]:
    """Return vectors as float32[n, dim]; a NULL vector is all NaN.

    Args:
        fitting: a condition that selects rows with vectors of the slot's length, for messages.

    Raises:
        DataError: a vector has another length than the slot's.
    """
    lengths = array.value_lengths().fill_null(slot.dim).to_numpy(zero_copy_only=False)
    if len(wrong := lengths[lengths != slot.dim]):
        raise DataError(f"The vectors of {slot.name} have {slot.dim} elements; one has {wrong[0]}. {fitting} leaves it out.")
    vectors = np.full((len(array), slot.dim), np.nan, np.float32)
    vectors[array.is_valid().to_numpy(zero_copy_only=False)] = floats(array.flatten()).reshape(-1, slot.dim)
    return vectors


VECTOR = Vector()
