"""Rows of a query in the columns of the table that they are inserted into."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..errors import StatementError
from .failures import absent
from .statements import Insert
from .types import duckdb_type, quoted


def places_of(statement: Insert, width: int, columns: Sequence[str]) -> dict[str, int]:
    """Return which columns an INSERT fills: name in lower case -> place in the query's columns.

    Args:
        width: the number of the query's columns.
        columns: the table's.

    Raises:
        StatementError: another number of columns, or a name that the table does not have.
    """
    name = statement.name
    given = [column.lower() for column in statement.columns or columns]
    for column in given:
        if column not in map(str.lower, columns):
            raise absent(f"column of {name.name} named", column, columns, name.position)
    if len(given) != width or len(set(given)) != len(given):
        raise StatementError(f"{name.name} takes {', '.join(given)} here, the query has {width} columns.", name.position)
    return {column: place for place, column in enumerate(given)}


def fitted(sql: str, found: pa.Schema, table: pa.Schema, statement: Insert) -> str:
    """Return DuckDB's query of the rows that an INSERT adds; columns that it does not name are NULL.

    Args:
        sql: DuckDB's query of what is inserted, and `found` its columns.
        table: the table's columns.

    Raises:
        StatementError: another number of columns, or a name that the table does not have.
    """
    places = {column: f"c{i}" for column, i in places_of(statement, len(found), table.names).items()}
    values = [(places.get(field.name.lower(), "NULL"), field) for field in table]
    items = ", ".join(f"CAST({value} AS {duckdb_type(field.type)}) AS {quoted(field.name)}" for value, field in values)
    return f"SELECT {items} FROM ({sql}) AS inserted({', '.join(places.values())})"
