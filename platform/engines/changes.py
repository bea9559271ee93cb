"""Checks of statements that make and fill tables and views, the same on every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from ...warehouse.tables import Tables
from ...warehouse.views import Views
from ..errors import StatementError
from ..quoting import quoted
from ..spark_types import is_known, spark_type
from .spark_sql.tree import CreateView, Insert, Name
from .unknown_names import absent

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
OR_REPLACE, WITH_REPLACE = "use OR REPLACE", "use WITH (replace = true)"


def exists(what: str, name: Name, *ways: str) -> StatementError:
    """Return the error for a name that exists already.

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
        StatementError: a view, or a table that must not be replaced, has the name.
    """
    if name.name in views.names():
        raise exists("view", name)
    if tables.exists(name.name) and not replace:
        raise exists("table", name, way)


def check_width(statement: CreateView, width: int) -> None:
    """Require that a view names as many columns as its query has, if it names any.

    Raises:
        StatementError: the numbers differ.
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


def check_partitioning(name: Name, partitioned_by: Sequence[str], schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that a new table is partitioned by, as the table names them.

    Raises:
        StatementError: one is missing, occurs twice or has a type that cannot partition, or no other column is left.
    """
    own = {field.name.lower(): field for field in schema}
    for column in partitioned_by:
        if column.lower() not in own:
            raise absent(f"column of {name.name} named", column, schema.names, name.position)
        if pa.types.is_nested(own[column.lower()].type):
            raise StatementError(f"{column} is {own[column.lower()].type}, by which no table is partitioned.", name.position)
    by = tuple(own[column.lower()].name for column in partitioned_by)
    if len(set(by)) < len(by):
        raise StatementError("PARTITIONED BY names a column twice.", name.position)
    if by and len(by) == len(schema):
        raise StatementError("PARTITIONED BY names all columns. Leave one for the rows.", name.position)
    return by


def check_once(columns: Sequence[str], where: str, name: Name) -> None:
    """Refuse a column that a statement names twice.

    Raises:
        StatementError: it does.
    """
    lowered = [column.lower() for column in columns]
    if twice := sorted({column for column in lowered if lowered.count(column) > 1}):
        raise StatementError(f"{where} names {', '.join(twice)} twice. Leave one out.", name.position)


def check_partition(statement: Insert, partitioned_by: Sequence[str]) -> None:
    """Require that PARTITION names what the table is partitioned by, values first.

    Raises:
        StatementError: it does not.
    """
    if not statement.partition:
        return
    name, given = statement.name, {column.lower() for column, _ in statement.partition}
    by = [column.lower() for column in partitioned_by]
    if not by:
        raise StatementError(f"{name.name} has no partitions: CREATE TABLE ... PARTITIONED BY makes them.", name.position)
    check_once([column for column, _ in statement.partition], "PARTITION", name)
    if given != set(by):
        came = ", ".join(column for column, _ in statement.partition)
        raise StatementError(f"{name.name} is partitioned by {', '.join(partitioned_by)}; PARTITION has {came}.", name.position)
    free = [column not in statement.fixed for column in by]
    if free != sorted(free):
        raise StatementError("In PARTITION, columns with a value come before those without one.", name.position)


def fixed_values(
    name: Name, given: Mapping[str, str], table: pa.Schema, run: Callable[[str], pa.Table]
) -> dict[str, pa.Scalar[pa.DataType]]:
    """Return the values that PARTITION gives to columns, in the types of the table.

    Args:
        given: the texts of values by columns in lower case.
        run: runs a query in Spark SQL.
    """
    fields = [field for field in table if field.name.lower() in given]
    if not fields:
        return {}
    items = (f"CAST({given[field.name.lower()]} AS {spark_type(field.type, quoted)})" for field in fields)
    try:
        row = run(f"SELECT {', '.join(items)}")
    except StatementError as error:
        raise StatementError(f"PARTITION has a value that the table does not take: {error}", name.position) from error
    return {field.name: row.column(i)[0].cast(field.type) for i, field in enumerate(fields)}


def partition_rows(name: Name, tables: Tables) -> pa.Table:
    """Return the rows of SHOW PARTITIONS, as Spark writes them.

    Raises:
        StatementError: the table has no partitions.
    """
    by, values = tables.partitioned_by(name.name), tables.partitions(name.name)
    if not by:
        raise StatementError(f"{name.name} has no partitions.", name.position)
    texts = ["/".join(f"{c}={NO_VALUE if v is None else v}" for c, v in zip(by, row, strict=True)) for row in values]
    return pa.table({"partition": pa.array(texts, pa.string())})


def places_of(statement: Insert, found: Sequence[str], columns: Sequence[str]) -> dict[str, int]:
    """Return which columns an INSERT fills: name in lower case -> place in the query's columns.

    Args:
        found: the query's columns.
        columns: the table's.

    Raises:
        StatementError: another number of columns, or a name that the table does not have.
    """
    name = statement.name
    free = [column for column in columns if column.lower() not in statement.fixed]
    given = [column.lower() for column in statement.columns or (found if statement.by_name else free)]
    for column in given:
        if column not in map(str.lower, columns):
            raise absent(f"column of {name.name} named", column, columns, name.position)
        if column in statement.fixed:
            raise StatementError(f"PARTITION gives {column} its value; leave it out of the columns.", name.position)
    if statement.columns:
        check_once(given, f"The list of columns of {name.name}", name)
    if len(given) != len(found) or len(set(given)) != len(given):
        raise StatementError(f"{name.name} takes {', '.join(given)} here, the query has {len(found)} columns.", name.position)
    return {column: place for place, column in enumerate(given)}
