"""CREATE FEATURES, REFRESH FEATURES, SHOW FEATURES, DESCRIBE FEATURES, DROP FEATURES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ....warehouse.durable import clear
from ...engines.unknown_names import absent
from ...errors import ModelError, Position, StatementError
from ...feature_tables.kept_features import IMAGE, ROWS, FeaturesDefinition, FeaturesVersion, StoredFeatures
from ...options import Value
from ..base import Statement
from ..cursor import Cursor
from ..query import Query

if TYPE_CHECKING:
    from ..context import StatementContext

SCHEMA = pa.schema(
    [("features", pa.string()), ("version", pa.int64()), ("rows", pa.int64()), ("keys", pa.int64()),
     ("published", pa.timestamp("ms", tz="UTC"))]
)  # fmt: skip


@dataclass(frozen=True)
class CreateFeatures:
    """A feature table is defined, and its first version made; or another one takes the place of it."""

    name: str
    statement: str
    query: Query
    key: Value
    time: Value | None
    replaces: bool

    def run(self, context: StatementContext) -> pa.Table:
        features = StoredFeatures(context.models.warehouse)
        time = None if self.time is None else self.time.value
        definition = FeaturesDefinition(
            self.name, self.statement, self.query.passage.text, self.key.value, time, self.values(context)
        )
        features.create(definition, self.replaces)
        try:
            return published(features, definition, self.query, self.key.position, context)
        except BaseException:
            if features.last(self.name) is None:
                features.drop(self.name)
            raise

    def values(self, context: StatementContext) -> tuple[str, ...]:
        """Return the columns that are neither key nor time.

        Raises:
            StatementError: a column is missing, or its type cannot be used.
        """
        from ...spark_types import type_words

        with self.query.expanded(context) as passage, passage.locating():
            schema = context.engine.schema(passage.text)
        kinds = {field.name.lower(): field.type for field in schema}
        for column in (self.key, *([] if self.time is None else [self.time])):
            if column.value.lower() not in kinds:
                raise absent("column", column.value, schema.names, column.position)
        key = kinds[self.key.value.lower()]
        if not (pa.types.is_string(key) or pa.types.is_integer(key)):
            message = f"KEY takes a text or a whole number, {self.key.value} is {type_words(key)}. CAST it AS STRING."
            raise StatementError(message, self.key.position)
        if self.time is not None and not is_moment(kinds[self.time.value.lower()]):
            found = type_words(kinds[self.time.value.lower()])
            message = f"TIME takes a timestamp, date or whole number, {self.time.value} is {found}."
            raise StatementError(message, self.time.position)
        own = {self.key.value.lower(), *([] if self.time is None else [self.time.value.lower()])}
        values = tuple(name for name in schema.names if name.lower() not in own)
        if not values:
            message = f"The query needs a column other than {' and '.join(sorted(own))}: a feature."
            raise StatementError(message, self.key.position)
        return values


def is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind))


@dataclass(frozen=True)
class RefreshFeatures:
    """A version with what the query returns now."""

    name: str
    position: Position

    def run(self, context: StatementContext) -> pa.Table:
        from ...engines.spark_sql.passage import Passage

        features = StoredFeatures(context.models.warehouse)
        definition = features.definition(self.name)
        return published(features, definition, Query.of(Passage.of(definition.query)), self.position, context)


@dataclass(frozen=True)
class DropFeatures:
    """A feature table is removed, with its versions."""

    name: str
    if_exists: bool

    def run(self, context: StatementContext) -> None:
        features = StoredFeatures(context.models.warehouse)
        if not self.if_exists or self.name.lower() in features.names():
            features.drop(self.name)


@dataclass(frozen=True)
class ShowFeatures:
    """The feature tables of the warehouse."""

    def run(self, context: StatementContext) -> pa.Table:
        features = StoredFeatures(context.models.warehouse)
        found: list[tuple[str, FeaturesVersion | None]] = []
        for name in features.names():
            try:
                found.append((name, features.newest(name)))
            except ModelError as error:  # it concerns this one alone
                context.reporter.note(f"Feature table {name}: {error}")
                found.append((name, None))
        return listed(found)


@dataclass(frozen=True)
class DescribeFeatures:
    """What a feature table is."""

    name: str

    def run(self, context: StatementContext) -> pa.Table:
        features = StoredFeatures(context.models.warehouse)
        definition, version = features.definition(self.name), features.newest(self.name)
        properties: Mapping[str, Any] = {
            "features": definition.name,
            "statement": definition.statement,
            "key": definition.key,
            "time": definition.time,
            "columns": ", ".join(definition.values),
            "version": None if version is None else version.number,
            "rows": None if version is None else version.rows,
            "keys": None if version is None else version.keys,
            "sources": None if version is None else ", ".join(f"{one.kind} {one.name}" for one in version.sources),
        }
        shown = {name: str(value) for name, value in properties.items() if value is not None}
        return pa.table({"property": list(shown), "value": list(shown.values())})


def published(
    features: StoredFeatures, definition: FeaturesDefinition, query: Query, place: Position | None, context: StatementContext
) -> pa.Table:
    """Make a version of what a query returns, and list it.

    Args:
        place: of the error for a key with several rows.
    """
    from ...engines.base import internal_name
    from ...feature_tables.point_in_time import doubles, ordered
    from ...histories.image import write_image

    view = internal_name("features")
    with features.changing(definition.name), features.draft(definition.name) as draft:
        with query.expanded(context) as passage, passage.locating():
            sources = tuple(context.engine.sources(passage.text))
            context.engine.stage(passage.text, draft / "given")
        context.engine.register(view, sorted((draft / "given").glob("*.parquet")))
        try:
            twice = context.engine.execute(doubles(definition, view))
            assert twice is not None  # a query answers
            if twice.num_rows:
                raise several(definition, twice.to_pylist()[0], place)
            context.engine.stage(ordered(definition, view), draft / ROWS)
        finally:
            context.engine.unregister(view)
        clear(draft / "given")
        rows, keys = write_image(sorted((draft / ROWS).glob("*.parquet")), draft / IMAGE, definition.key)
        version = features.publish(definition, draft, rows, keys, sources)
    return listed([(definition.name, version)])


def several(definition: FeaturesDefinition, row: Mapping[str, Any], place: Position | None) -> StatementError:
    names = [name for name in row if name != "xpsql_n"]
    key = " and ".join(f"{name} = {row[name]!r}" for name in names)
    remedy = "Keep one in the query" + ("" if definition.time else ", or say since when each holds: TIME column")
    return StatementError(f"The feature table {definition.name} has {row['xpsql_n']} rows with {key}. {remedy}.", place)


def listed(found: Sequence[tuple[str, FeaturesVersion | None]]) -> pa.Table:
    from datetime import datetime

    rows = [
        {"features": name} if v is None else
        {"features": name, "version": v.number, "rows": v.rows, "keys": v.keys, "published": datetime.fromisoformat(v.created)}
        for name, v in found
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


def parse_create(cursor: Cursor) -> CreateFeatures:
    name = cursor.identifier("a name for the features")
    cursor.expect("KEY")
    key = read_column(cursor)
    time = read_column(cursor) if cursor.accept("TIME") else None
    cursor.expect("AS")
    if cursor.at_end:
        raise cursor.expected("a query")
    query = Query.of(cursor.remainder())
    cursor.index = len(cursor.tokens)
    return CreateFeatures(name.lower(), cursor.span(0).text, query, key, time, False)


def parse_replace(cursor: Cursor) -> CreateFeatures:
    return replace(parse_create(cursor), replaces=True)


def read_column(cursor: Cursor) -> Value:
    position = cursor.position()
    return Value(cursor.identifier("a column"), position)


def parse_refresh(cursor: Cursor) -> RefreshFeatures:
    position = cursor.position()
    return RefreshFeatures(cursor.identifier("the name of features"), position)


def parse_drop(cursor: Cursor) -> DropFeatures:
    if_exists = cursor.accept("IF", "EXISTS")
    return DropFeatures(cursor.identifier("the name of features"), if_exists)


HELP = "Keep features by key, from a query, for queries at a point in time and for the service; see docs/features_by_key.md."
CREATE_FEATURES = Statement("CREATE FEATURES", "CREATE FEATURES name KEY column [TIME column] AS query", HELP, parse_create)
REPLACE_FEATURES = Statement(
    "CREATE OR REPLACE FEATURES",
    "CREATE OR REPLACE FEATURES name KEY column [TIME column] AS query",
    "Keep features by key in the place of those of the same name, which are read until these are complete.",
    parse_replace,
)
REFRESH_FEATURES = Statement(
    "REFRESH FEATURES",
    "REFRESH FEATURES name",
    "Publish a version of features with what their query returns now.",
    parse_refresh,
)
DROP_FEATURES = Statement("DROP FEATURES", "DROP FEATURES [IF EXISTS] name", "Remove features.", parse_drop)
SHOW_FEATURES = Statement(
    "SHOW FEATURES", "SHOW FEATURES", "List the features by key, and the newest version of each.", lambda cursor: ShowFeatures()
)
DESCRIBE_FEATURES = Statement(
    "DESCRIBE FEATURES",
    "DESCRIBE FEATURES name",
    "Show what features are, how many keys they have, and what they were read from.",
    lambda cursor: DescribeFeatures(cursor.identifier("the name of features")),
)
