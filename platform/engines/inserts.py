"""Rows of a query in the columns of the table that they are inserted into."""

from __future__ import annotations

import pyarrow as pa

from ..errors import StatementError
from .failures import absent
from .statements import Insert
from .types import duckdb_type, quoted


def fitted(sql: str, found: pa.Schema, table: pa.Schema, statement: Insert) -> str:
    """Return DuckDB's query of the rows that an INSERT adds; columns that it does not name are NULL.

    Args:
        sql: DuckDB's query of what is inserted, and `found` its columns.
        table: the table's columns.

    Raises:
        StatementError: another number of columns, or a name that the table does not have.
    """
    name = statement.name
    given = [column.lower() for column in statement.columns or table.names]
    for column in given:
        if column not in map(str.lower, table.names):
            raise absent(f"column of {name.name} named", column, table.names, name.position)
    if len(given) != len(found) or len(set(given)) != len(given):
        raise StatementError(f"{name.name} takes {', '.join(given)} here, the query has {len(found)} columns.", name.position)
    places = {column: f"c{i}" for i, column in enumerate(given)}
    values = [(places.get(field.name.lower(), "NULL"), field) for field in table]
    items = ", ".join(f"CAST({value} AS {duckdb_type(field.type)}) AS {quoted(field.name)}" for value, field in values)
    return f"SELECT {items} FROM ({sql}) AS inserted({', '.join(places.values())})"
