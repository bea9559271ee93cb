"""xxhash64 and feature_key: the keys of features, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .base import Computed, Function


def hashed(columns: Sequence[pa.Array]) -> pa.Array:
    """Return Spark's xxhash64 of each row, int64; a NULL argument leaves the hash of those before it."""
    from ..ps.keys import xxhash64 as keys

    return pa.array(keys(columns).view(np.int64))


def key_sql(arguments: Sequence[str]) -> str:
    """Return the key of a slot's value in plain SQL."""
    slot, value = arguments
    return f"xxhash64(CAST({slot} AS STRING), CAST({value} AS STRING))"


xxhash64 = Computed("xpsql_xxhash64", hashed, pa.int64())

feature_key = Function(
    name="feature_key",
    signature="(slot STRING, value) -> BIGINT",
    help="The key under which a model keeps a slot's value: xxhash64(slot, CAST(value AS STRING)). NULL has a key too.",
    least=2,
    most=2,
    expand=key_sql,
)
