"""Results of DuckDB's queries: their columns in Spark's types, and their rows as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ...spark_types import spark_schema, with_spark_types
from ..parquet import ROW_GROUP_ROWS
from ..waiting import awaited
from .failures import explained

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HUGEINT = re.compile(r'\bU?HUGEINT\b(?![ "])')  # the name of a field has a space or quote behind it
NOTHING = 'MAP("NULL", "NULL")'


def found_schema(connection: DuckDBPyConnection, sql: str) -> pa.Schema:
    """Return the columns of a query as DuckDB has them, without running it; names may repeat.

    Its integers of 128 bits are BIGINT here, with metadata: as Arrow's they would be DECIMAL(38, 0).
    """
    relation = connection.sql(sql)
    kinds = [str(kind) for kind in relation.types]
    if any(NOTHING in kind for kind in kinds):
        raise StatementError("An empty map() has no type here; give it one: CAST(map() AS MAP<STRING, INT>).")
    for name in relation.columns:
        if "\0" in name:
            raise StatementError(f"The name of the column {name!r} has a NUL, which no name may have. Name it: AS name.")
    nothing = ", ".join(f"CAST(NULL AS {HUGEINT.sub('BIGINT', kind)}) AS c{i}" for i, kind in enumerate(kinds))
    types = connection.sql(f"SELECT {nothing}").to_arrow_table().schema.types
    metadata = [{"engine": kind} if HUGEINT.search(kind) else None for kind in kinds]
    return pa.schema([pa.field(*field) for field in zip(relation.columns, types, [True] * len(types), metadata, strict=True)])


def simplified(connection: DuckDBPyConnection, sql: str) -> str:
    """Return a query whose columns have Spark's types."""
    return with_spark_types(sql, found_schema(connection, sql))


def streamed(connection: DuckDBPyConnection, sql: str, text: str) -> pa.RecordBatchReader:
    """Start a query and return its rows in Spark's types; the connection is closed after the last one.

    Args:
        text: what the user wrote, for errors while reading.
    """
    found = found_schema(connection, sql)
    schema, relation = spark_schema(found), connection.sql(with_spark_types(sql, found))
    reader = awaited(connection, lambda: relation.to_arrow_reader(ROW_GROUP_ROWS))

    def batches() -> Iterator[pa.RecordBatch]:
        with connection, explained(text):
            while (batch := awaited(connection, lambda: next(reader, None))) is not None:
                yield batch if batch.schema == schema else batch.cast(schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
