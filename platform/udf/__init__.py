"""SQL functions that xpsql adds to every engine: declared once, rewritten into plain SQL or computed on Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from .base import Function
from .bucketize import bucketize
from .cross import cross
from .hashes import feature_key, xxhash64
from .metrics import auc, auc_of, logloss, pcopc

if TYPE_CHECKING:
    import duckdb

FUNCTIONS: tuple[Function, ...] = (xxhash64, feature_key, cross, bucketize, auc, auc_of, logloss, pcopc)
DUCKDB_TYPES = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the computed functions known to DuckDB, where they are called with arrays of a chunk of rows."""
    from duckdb.func import ARROW, SPECIAL

    for function in FUNCTIONS:
        if function.compute is not None and function.result is not None:
            connection.create_function(
                function.name,
                chunked(function.compute),
                None,
                DUCKDB_TYPES[function.result],
                type=ARROW,
                null_handling=SPECIAL,
            )


def chunked(compute: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """Adapt a function of a sequence of arrays to DuckDB's calls, one chunked array per argument."""

    def call(*columns: pa.ChunkedArray) -> pa.Array:
        return compute([column.combine_chunks() for column in columns])

    return call


__all__ = ["FUNCTIONS", "Function", "register"]
