"""Families of Arrow types that kinds of slots and roles accept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_weight(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(pa.types.is_integer(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def lengths_of(lists: pa.Array) -> NDArray[np.int64]:
    """Return how many elements each row of an array of lists has, 0 where it is NULL."""
    found: NDArray[np.int64] = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
