"""Rows of a query in the columns of the table that they are inserted into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from ...errors import StatementError
from ..spark_sql.statements import Insert
from ..spark_sql.types import duckdb_type, quoted
from .failures import absent
from .translation.casts import spark_cast
from .translation.macros import make

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def places_of(statement: Insert, found: Sequence[str], columns: Sequence[str]) -> dict[str, int]:
    """Return which columns an INSERT fills: name in lower case -> place in the query's columns.

    Args:
        found: the query's columns.
        columns: the table's.

    Raises:
        StatementError: another number of columns, or a name that the table does not have.
    """
    name = statement.name
    given = [column.lower() for column in statement.columns or (found if statement.by_name else columns)]
    for column in given:
        if column not in map(str.lower, columns):
            raise absent(f"column of {name.name} named", column, columns, name.position)
    if len(given) != len(found) or len(set(given)) != len(given):
        raise StatementError(f"{name.name} takes {', '.join(given)} here, the query has {len(found)} columns.", name.position)
    return {column: place for place, column in enumerate(given)}


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
