"""Rows of a query in the columns and the order of the table that they are inserted into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from ...spark_types import duckdb_type, quoted
from ..changes import places_of
from ..spark_sql.tree import Insert
from .translation import make_macros, spark_cast

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def fitted(
    connection: DuckDBPyConnection,
    sql: str,
    table: pa.Schema,
    statement: Insert,
    fixed: Mapping[str, pa.Scalar[pa.DataType]],
) -> str:
    """Return DuckDB's query of the rows that an INSERT adds, cast as Spark does; columns that it does not name are NULL.

    Args:
        sql: DuckDB's query of the inserted rows.
        table: the table's columns.
        fixed: the values of columns that PARTITION gives.

    Raises:
        StatementError: another number of columns, or a name that the table does not have.
    """
    found = connection.sql(sql)
    places = places_of(statement, found.columns, table.names)
    items = []
    for field in table:
        place, to = places.get(field.name.lower()), exp.DataType.build(duckdb_type(field.type), dialect="duckdb")
        if place is not None:
            value = spark_cast(exp.column(f"c{place}"), found.types[place], to)
        elif field.name in fixed and fixed[field.name].is_valid:
            value = exp.cast(exp.Literal.string(str(fixed[field.name].cast(pa.string()))), to)
        else:
            value = exp.cast(exp.null(), to)
        items.append(f"{value.sql('duckdb')} AS {quoted(field.name)}")
    columns = ", ".join(f"c{place}" for place in places.values())
    made = f"SELECT {', '.join(items)} FROM ({sql}) AS inserted({columns})"
    make_macros(made, connection)
    return made


def grouped(sql: str, columns: Sequence[str], partitioned_by: Sequence[str]) -> str:
    """Return DuckDB's query of the same rows with the columns of partitions last, partition by partition, in their order."""
    if not partitioned_by:
        return sql
    names = [quoted(column) for column in (*(c for c in columns if c not in partitioned_by), *partitioned_by)]
    order = ", ".join([*(f"{quoted(column)} NULLS FIRST" for column in partitioned_by), "xpsql_place"])
    return f"SELECT {', '.join(names)} FROM (SELECT *, row_number() OVER () AS xpsql_place FROM ({sql})) ORDER BY {order}"
