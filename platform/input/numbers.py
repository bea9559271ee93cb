"""Numbers and times of Arrow columns as arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DataError

LAST_SECOND = 2**32 - 1


def floats(values: pa.Array | pa.ChunkedArray) -> NDArray[np.float32]:
    """Return numbers, decimals or booleans as float32, NaN where NULL, infinite beyond its range."""
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    elif pa.types.is_boolean(values.type) and values.null_count:  # only then: Arrow's first cast takes 40 ms
        values = values.cast(pa.int8())
    array = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    with np.errstate(over="ignore"):
        return np.asarray(array, np.float32)


def shown(value: np.float32) -> str:
    """Return one of `floats` as SQL writes it."""
    return "NULL or NaN" if np.isnan(value) else f"{value:g}"


def seconds(column: pa.ChunkedArray, name: str) -> NDArray[np.uint32]:
    """Return a timestamp, date or integer column as seconds since 1970, 0 where NULL or earlier.

    Raises:
        DataError: a time does not fit into 32 bits; names the column and the time.
    """
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s"))
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s", kind.tz), safe=False)
    values: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy()
    if len(values) and (latest := int(values.max())) > LAST_SECOND:
        raise DataError(
            f"TIME {name} must be seconds since 1970, at most {LAST_SECOND} (in 2106); one is {latest}. Divide milliseconds by "
            "1000, or leave later times out in the query."
        )
    return np.maximum(values, 0).astype(np.uint32)
