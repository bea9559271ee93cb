"""SQL functions that xpsql adds to every engine: names for plain Spark SQL, and what that SQL needs computed on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from .base import Computed, Function
from .bucketize import bucketize
from .cross import cross
from .hashes import feature_key, xxhash64
from .metrics import auc, auc_of, logloss, pcopc

if TYPE_CHECKING:
    import duckdb

FUNCTIONS: tuple[Function, ...] = (feature_key, cross, bucketize, auc, logloss, pcopc)
COMPUTED: tuple[Computed, ...] = (xxhash64, auc_of)
DUCKDB_TYPES = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the computed functions and Spark's own known to a DuckDB session, whose queries `transpile` writes."""
    from duckdb.func import ARROW, SPECIAL

    from ..engines.functions import MACRO_TEXT

    for function in COMPUTED:
        connection.create_function(
            function.name, chunked(function.compute), None, DUCKDB_TYPES[function.result], type=ARROW, null_handling=SPECIAL
        )
    connection.execute(MACRO_TEXT)


def chunked(compute: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """Adapt a function of a sequence of arrays to DuckDB's calls, one chunked array per argument."""

    def call(*columns: pa.ChunkedArray) -> pa.Array:
        return compute([column.combine_chunks() for column in columns])

    return call


__all__ = ["COMPUTED", "FUNCTIONS", "Computed", "Function", "register"]
