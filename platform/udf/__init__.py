"""SQL functions that xpsql adds to every engine: names for plain Spark SQL, and what that SQL needs computed on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .base import Computed, Function
from .bucketize import bucketize
from .cross import cross
from .csv_text import csv_cells, csv_rows
from .features import clip, hash_bucket, ngrams, quantile_bounds
from .hashes import feature_key, murmur, raw_id, xxhash64
from .json_paths import json_part
from .json_values import json_settled
from .metrics import auc, auc_of, logloss, pcopc
from .text_times import shifted_micros, text_days, text_micros, text_real
from .texts import base_text, latin_text, lowered, raised, reversed_text
from .time_patterns import pattern_micros

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

FUNCTIONS: tuple[Function, ...] = (
    feature_key,
    cross,
    bucketize,
    quantile_bounds,
    clip,
    hash_bucket,
    ngrams,
    auc,
    logloss,
    pcopc,
)
COMPUTED: tuple[Computed, ...] = (
    xxhash64,
    auc_of,
    raw_id,
    csv_cells,
    csv_rows,
    text_micros,
    text_days,
    text_real,
    shifted_micros,
    json_settled,
    json_part,
    pattern_micros,
    murmur,
    lowered,
    raised,
    reversed_text,
    base_text,
    latin_text,
)
LACKED_BY_SPARK = (auc_of, raw_id)
SQL_TYPES = {
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.list_(pa.string()): "VARCHAR[]",
    pa.list_(pa.list_(pa.string())): "VARCHAR[][]",
}


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the computed functions known to a DuckDB session, whose queries `transpile` writes."""
    from duckdb.func import ARROW, SPECIAL

    for function in COMPUTED:
        connection.create_function(
            function.name, chunked(function.compute), None, SQL_TYPES[function.result], type=ARROW, null_handling=SPECIAL
        )


def register_in_spark(spark: SparkSession) -> None:
    """Make the computed functions that Spark lacks known to a session of it; they run on executors."""
    from pyspark.sql import functions

    for function in LACKED_BY_SPARK:
        kind = SQL_TYPES[function.result].lower()
        if hasattr(functions, "arrow_udf"):
            made = functions.arrow_udf(on_arrays(function.compute), kind)
        else:  # before Spark 4.1
            made = functions.udf(on_rows(function.compute), kind, useArrow=False)
        spark.udf.register(function.name, made)


def on_arrays(compute: Callable[[Sequence[pa.Array]], pa.Array]) -> Callable[..., pa.Array]:
    """Adapt a function of a sequence of arrays to Spark's calls, one array per argument."""

    def call(*columns: pa.Array) -> pa.Array:
        return compute(columns)

    return call


def on_rows(compute: Callable[[Sequence[pa.Array]], pa.Array]) -> Callable[..., Any]:
    """Adapt a function of a sequence of arrays to Spark's calls with Python's values, a row each."""

    def call(*values: Any) -> Any:
        return compute([pa.array([value]) for value in values])[0].as_py()

    return call


def chunked(compute: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """Adapt a function of a sequence of arrays to DuckDB's calls, one chunked array per argument."""

    def call(*columns: pa.ChunkedArray) -> pa.Array:
        return compute([column.combine_chunks() for column in columns])

    return call


__all__ = ["COMPUTED", "FUNCTIONS", "Computed", "Function", "register", "register_in_spark"]
