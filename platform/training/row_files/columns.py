"""Columns of rows as Arrow has them and as arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def batch_of(keys: NDArray[np.uint64], columns: Mapping[str, NDArray[np.generic]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows in the schema of their table."""
    arrays = [as_arrow(columns[field.name], field.type) for field in list(schema)[1:]]
    return pa.RecordBatch.from_arrays([pa.array(keys.view(np.int64)), *arrays], schema=schema)


def as_arrow(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]], kind: pa.DataType) -> pa.Array:
    """Return statistics [n] or floats [n, dim] as a column of the rows' schema."""
    values = np.ascontiguousarray(values)
    if pa.types.is_fixed_size_binary(kind):
        return pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    flat = pa.array(values.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, type=kind) if pa.types.is_fixed_size_list(kind) else flat


def values(column: pa.Array) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return a column of a stored row as a flat array."""
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width // 4
        return np.frombuffer(column.buffers()[1], "<f4")[column.offset * width : (column.offset + len(column)) * width]
    if pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    return np.asarray(column.to_numpy(zero_copy_only=False))
