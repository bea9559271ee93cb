"""Keys and gradients as programs have them: NumPy, Arrow, tensors of torch and lists become keys and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DataError
from ..ps._native import unique
from ..ps.keys import Keys, feature_keys, raw_keys

Floats = NDArray[np.float32]


def as_numpy(values: Any) -> Any:
    """Return a tensor of torch as NumPy sees its memory; other values as they are."""
    if type(values).__module__.partition(".")[0] == "torch":
        return values.detach().cpu().numpy()
    return values


def keys_of(values: Any, slot: str, raw: bool) -> Keys:
    """Return the keys of values of a slot: those of SQL's feature_key(slot, value), or of ready-made ids.

    Args:
        values: integers or strings, also NULL and others that SQL would hash, in one dimension.

    Raises:
        DataError: they are of another type.
    """
    values = as_numpy(values)
    if isinstance(values, (str, bytes)):
        raise DataError(f"Values of slot {slot} are a list or an array; got the text {values!r}: write [{values!r}].")
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if not isinstance(values, pa.Array):
            values = pa.array(np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values)
        return raw_keys(slot, values) if raw else feature_keys(slot, values)
    except (TypeError, pa.ArrowException, ValueError) as error:
        raise DataError(f"Values of slot {slot} must be integers or strings, in one dimension: {error}.") from error


def gradients_of(values: Any, count: int, dim: int, table: str) -> Floats:
    """Return gradients as float32[count, dim].

    Raises:
        DataError: they have another shape or type; says which was expected.
    """
    values = as_numpy(values)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        if not pa.types.is_fixed_size_list(values.type):
            raise DataError(f"Gradients of table {table} are a FixedSizeList of {dim} floats, got {values.type}.")
        flat = values.flatten().to_numpy(zero_copy_only=False)
        values = flat.reshape(-1, values.type.list_size)
    found = np.asarray(values)
    if found.dtype.kind not in "fiu":
        raise DataError(f"Gradients of table {table} are numbers, got {found.dtype}.")
    if found.shape != (count, dim):
        raise DataError(
            f"Table {table} has rows of {dim} floats, so {count:,} keys have gradients of shape ({count}, {dim}); got "
            f"{found.shape}."
        )
    return np.ascontiguousarray(found, np.float32)


def arrays_of(given: Mapping[str, Any], expected: Mapping[str, tuple[int, ...]], what: str) -> dict[str, Floats]:
    """Return the arrays that a reading takes as float32.

    Raises:
        DataError: one lacks, is not taken, or has another shape; says which was expected.
    """
    if set(given) != set(expected):
        wanted = " and ".join(f"{name}, {' x '.join(map(str, shape))} numbers" for name, shape in expected.items())
        raise DataError(f"{what} takes {wanted or 'no arrays'}; got {', '.join(given) or 'none'}.")
    found = {}
    for name, shape in expected.items():
        values = np.asarray(as_numpy(given[name]))
        if values.dtype.kind not in "fiu" or values.shape != shape:
            raise DataError(
                f"{name} of {what} has {' x '.join(map(str, shape))} numbers; got {values.dtype}{list(values.shape)}."
            )
        found[name] = np.ascontiguousarray(values, np.float32)
    return found


def counts_of(values: Any, count: int, what: str) -> NDArray[np.uint32] | None:
    """Return counts of keys as uint32[count]; None where none are given.

    Raises:
        DataError: they have another length, or are no counts.
    """
    if values is None:
        return None
    found = np.asarray(as_numpy(values))
    if found.shape != (count,) or found.dtype.kind not in "iu" or (count and found.min() < 0):
        raise DataError(f"{what} are {count:,} whole numbers of at least 0, one for each key; got {found.dtype}{found.shape}.")
    return found.astype(np.uint32)


def summed_by_key(keys: Keys, values: Floats) -> tuple[Keys, NDArray[np.int32], Floats]:
    """Return distinct keys, each key's position among them, and the sums of their values, in the order of `values`."""
    distinct, positions = unique(keys)
    if len(distinct) == len(keys):
        return distinct, positions, values
    total = np.zeros((len(distinct), values.shape[1]), np.float32)
    np.add.at(total, positions, values)
    return distinct, positions, total
