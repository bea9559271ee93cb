"""ML.FEATURES_AT: rows beside the features of their keys, as they were known before the time of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...engines.unknown_names import absent
from ...errors import ModelError, StatementError
from ...options import Value
from ...spark_types import type_words
from ..base import Call, Keyword, TableFunction
from ..cursor import Cursor

if TYPE_CHECKING:
    from ...feature_tables.kept_features import FeaturesVersion
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> str:
    from ...feature_tables.kept_features import StoredFeatures
    from ...feature_tables.point_in_time import beside

    data = call.data
    assert data is not None  # required by the grammar
    (name,) = call.arguments
    try:
        version = StoredFeatures(context.models.warehouse)
        found = version.newest(version.definition(name.value).name)
    except ModelError as error:
        raise StatementError(str(error), name.position) from error
    if found is None:
        raise StatementError(
            f"The feature table {name.value} has no version. REFRESH FEATURES {name.value} makes one.", name.position
        )
    with data.locating():
        schema = context.engine.schema(data.text)
    key, time = columns_of(found, schema, call, name)
    return beside(data.text, found, key, time)


def columns_of(version: FeaturesVersion, schema: pa.Schema, call: Call, name: Value) -> tuple[str, str | None]:
    """Return the columns of a query that have the key and the time.

    Raises:
        StatementError: one is missing or of an unlike type, or the query has a feature's column.
    """
    import pyarrow.parquet as pq

    from ...feature_tables.kept_features import ROWS

    definition, own = version.definition, {field.name.lower(): field for field in schema}
    stored = pq.read_schema(next(iter(sorted((version.folder / ROWS).glob("*.parquet")))))
    key = call.keywords.get("KEY") or Value(definition.key, name.position)
    time = call.keywords.get("TIME") or (None if definition.time is None else Value(definition.time, name.position))
    if definition.time is None and time is not None:
        remedy = "Leave TIME out, or create it with TIME column."
        message = f"The feature table {definition.name} has no TIME: a key has one row. {remedy}"
        raise StatementError(message, time.position)
    wanted = [("KEY", key, definition.key)]
    if time is not None and definition.time is not None:
        wanted.append(("TIME", time, definition.time))
    for word, column, other in wanted:
        if column.value.lower() not in own:
            error = absent("column", column.value, schema.names, column.position)
            given = f"{word} names a column of the query."
            remedy = given if word in call.keywords else f"Say which column of the query it is: {word} column."
            raise StatementError(f"{error.message} {remedy}", column.position)
        given, kept = own[column.value.lower()].type, stored.field(other).type
        if not alike(given, kept):
            theirs = f"{other} of {definition.name} is {type_words(kept)}"
            raise StatementError(f"{word} {column.value} is {type_words(given)}, and {theirs}. CAST one.", column.position)
    if both := [column for column in definition.values if column.lower() in own]:
        columns = f"The query returns {', '.join(both)}, which the feature table {definition.name} has, too"
        raise StatementError(f"{columns}. Leave it out of one, or rename it with AS.", name.position)
    return own[key.value.lower()].name, None if time is None else own[time.value.lower()].name


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types are compared as they are: texts, whole numbers, or times."""
    t = pa.types
    times = [t.is_timestamp(kind) or t.is_date(kind) for kind in (one, other)]
    return bool(all(times) or (t.is_string(one) and t.is_string(other)) or (t.is_integer(one) and t.is_integer(other)))


def named(cursor: Cursor) -> Value:
    position = cursor.position()
    return Value(cursor.identifier("a name"), position)


FEATURES_AT = TableFunction(
    "FEATURES_AT",
    "ML.FEATURES_AT(TABLE t | (query), features [, KEY column] [, TIME column])",
    "Rows with the features of their keys that CREATE FEATURES keeps: where these have TIME, the last that were known strictly "
    "before the row's time. KEY and TIME name the query's columns; by default they have the names of the features' own. "
    "NULL for an unknown key.",
    "required",
    ("the name of features",),
    run,
    model="none",
    keywords=(Keyword("KEY", named), Keyword("TIME", named)),
    read=named,
)
