"""Rows of a query in the columns of the table that they are inserted into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from ...spark_types import duckdb_type, quoted
from ..changes import places_of
from ..spark_sql.tree import Insert
from .translation.casts import spark_cast
from .translation.macros import make

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def fitted(connection: DuckDBPyConnection, sql: str, table: pa.Schema, statement: Insert) -> str:
    """Return DuckDB's query of the rows that an INSERT adds, cast as Spark does; columns that it does not name are NULL.

    Args:
        sql: DuckDB's query of what is inserted.
        table: the table's columns.

    Raises:
        StatementError: another number of columns, or a name that the table does not have.
    """
    found = connection.sql(sql)
    places = places_of(statement, found.columns, table.names)
    items = []
    for field in table:
        place, to = places.get(field.name.lower()), exp.DataType.build(duckdb_type(field.type), dialect="duckdb")
        value = exp.cast(exp.null(), to) if place is None else spark_cast(exp.column(f"c{place}"), found.types[place], to)
        items.append(f"{value.sql('duckdb')} AS {quoted(field.name)}")
    columns = ", ".join(f"c{place}" for place in places.values())
    made = f"SELECT {', '.join(items)} FROM ({sql}) AS inserted({columns})"
    make(made, connection)
    return made
