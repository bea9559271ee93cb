"""What statements that make and fill tables and views are held to, the same on every engine."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...warehouse.tables import Tables
from ...warehouse.views import Views
from ..errors import StatementError
from ..spark_types import is_known
from .missing import absent
from .spark_sql.tree import CreateView, Insert, Name

OR_REPLACE, WITH_REPLACE = "use OR REPLACE", "use WITH (replace = true)"


def exists(what: str, name: Name, *ways: str) -> StatementError:
    """Return the error of a name that is taken.

    Args:
        ways: how the statement can take its place.
    """
    listed = ", ".join(("Drop it", *ways, "or choose another name"))
    return StatementError(f"The {what} {name.name} exists. {listed}.", name.position)


def check_new_table(name: Name, tables: Tables, views: Views, replace: bool, way: str) -> None:
    """Require that a table can be made by a name.

    Args:
        way: how the statement could take the place of a table.

    Raises:
        StatementError: a view has the name, or a table that is not to be replaced.
    """
    if name.name in views.names():
        raise exists("view", name)
    if tables.exists(name.name) and not replace:
        raise exists("table", name, way)


def check_width(statement: CreateView, width: int) -> None:
    """Require that a view names as many columns as its query has, if it names any.

    Raises:
        StatementError: it names more or fewer.
    """
    if statement.columns and width != len(statement.columns):
        message = f"The view names {len(statement.columns)} columns, its query has {width}."
        raise StatementError(message, statement.name.position)


def check_columns(schema: pa.Schema) -> None:
    """Require that a table can have these columns.

    Raises:
        StatementError: two columns have one name, or a column has no type that a table can have.
    """
    names = [name.lower() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StatementError(f"The query has two columns named {', '.join(twice)}; name them apart with AS.")
    for field in schema:
        if pa.types.is_null(field.type):
            raise StatementError(f"The column {field.name} is NULL without a type; CAST it in the query.")
        if not is_known(field.type):
            raise StatementError(f"The column {field.name} is {field.type}, which tables cannot hold; CAST it in the query.")


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
