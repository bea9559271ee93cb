"""xxhash64 and feature_key: the keys of features, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .base import Function


def hashed(columns: Sequence[pa.Array]) -> pa.Array:
    """Return Spark's xxhash64 of each row, int64; a NULL argument leaves the hash of those before it."""
    from ..ps.keys import xxhash64 as keys

    return pa.array(keys(columns).view(np.int64))


def key_sql(arguments: Sequence[str]) -> str:
    """Return the key of a slot's value in plain SQL."""
    slot, value = arguments
    return f"xxhash64(CAST({slot} AS STRING), CAST({value} AS STRING))"


xxhash64 = Function(
    name="xxhash64",
    signature="(value, ...) -> BIGINT",
    help="The 64-bit XXH64 hash of its arguments, seed 42, as Spark computes it. NULL arguments are passed over.",
    least=1,
    most=None,
    compute=hashed,
    result=pa.int64(),
)

feature_key = Function(
    name="feature_key",
    signature="(slot STRING, value) -> BIGINT",
    help="The key under which a model keeps a slot's value: xxhash64(slot, CAST(value AS STRING)). NULL has a key too.",
    least=2,
    most=2,
    sql=key_sql,
)
