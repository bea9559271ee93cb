"""xxhash64 and feature_key: the keys of features, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .base import Computed, Function
from .cross import joined


def hashed(columns: Sequence[pa.Array]) -> pa.Array:
    """Return Spark's xxhash64 of each row, int64; a NULL argument leaves the hash of those before it."""
    from ..ps.hashes import xxhash64 as keys

    return pa.array(keys(columns).view(np.int64))


def murmured(columns: Sequence[pa.Array]) -> pa.Array:
    """Return Spark's hash of each row, as int64."""
    from ..ps.hashes import murmur

    return pa.array(murmur(columns).astype(np.int64))


def key_sql(arguments: Sequence[str]) -> str:
    """Return the key of a slot's value, or of a cross of several values, in plain SQL."""
    slot, *values = arguments
    text = f"CAST({values[0]} AS STRING)" if len(values) == 1 else joined(values)
    return f"xxhash64(CAST({slot} AS STRING), {text})"


def ids_of_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the ready-made ids whose keys these are, int64."""
    from ..ps.keys import numbers, raw_ids

    (keys,) = columns
    return pa.array(raw_ids(numbers(keys, np.dtype("u8"))).view(np.int64))


raw_id = Computed("xpsql_raw_id", ids_of_keys, pa.int64())
murmur = Computed("xpsql_murmur", murmured, pa.int64())
xxhash64 = Computed("xpsql_xxhash64", hashed, pa.int64())

feature_key = Function(
    name="feature_key",
    signature="(slot STRING, value, ...) -> BIGINT",
    help="The key under which a model keeps a slot's value: xxhash64(slot, CAST(value AS STRING)). NULL has a key too. Of "
    "several values it is that of their cross: feature_key(slot, cross(value, ...)).",
    least=2,
    most=None,
    expand=key_sql,
)
