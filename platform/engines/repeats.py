"""Run-end encoded columns of Arrow: neighbouring rows with one value store it once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def repeated(values: pa.ChunkedArray, ends: NDArray[np.int32]) -> pa.Array:
    """Return a column of runs.

    Args:
        values: one for each run.
        ends: int32[runs], the row after the last one of each.
    """
    whole = values.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends), whole)


def one_value(value: pa.Array, count: int) -> pa.Array:
    """Return a column of `count` rows that all have one value, the only one of an array."""
    return pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int32()), value) if count else value[:0]


def expanded(table: pa.Table) -> pa.Table:
    """Return a table with a value for each row."""
    columns = table.columns
    return table if not any(map(has_runs, columns)) else pa.table(list(map(flat, columns)), names=table.column_names)


def has_runs(column: pa.ChunkedArray) -> bool:
    """Return whether a column is stored as runs."""
    return bool(pa.types.is_run_end_encoded(column.type))


def flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with a value for each row."""
    if not has_runs(column):
        return column
    pieces = [values_of(chunk).take(pa.array(owners_of(chunk))) for chunk in column.chunks]
    return pa.chunked_array(pieces, column.type.value_type)


def values_of(runs: pa.RunEndEncodedArray) -> pa.Array:
    """Return the values of runs, one for each that has rows."""
    first = runs.find_physical_offset()
    return runs.values.slice(first, runs.find_physical_length())


def lengths_of(runs: pa.RunEndEncodedArray) -> NDArray[np.int64]:
    """Return how many rows each run has, int64[runs]."""
    first, count = runs.find_physical_offset(), runs.find_physical_length()
    ends = runs.run_ends.to_numpy().astype(np.int64)[first : first + count] - runs.offset
    lengths: NDArray[np.int64] = np.diff(np.minimum(ends, len(runs)), prepend=0)
    return lengths


def owners_of(runs: pa.RunEndEncodedArray) -> NDArray[np.int32]:
    """Return the run of each row, int32[rows]."""
    lengths = lengths_of(runs)
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
