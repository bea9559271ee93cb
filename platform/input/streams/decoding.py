"""Decoding of messages to rows: the columns of the message itself, or of the JSON object in its value."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import StatementError
from ...spark_types import TIMESTAMP, duckdb_type, quoted, spark_schema, type_words
from ...udf.json_values import settled, shape_of
from .skipped import Skipped

if TYPE_CHECKING:
    from confluent_kafka import Message
    from duckdb import DuckDBPyConnection

MESSAGE = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
    ]
)
"""The columns of a message where no schema is given."""
Flags = NDArray[np.bool_]
NO_UTF8 = "it is not UTF-8"
NO_OBJECT = "it is not a JSON object"
VALUE = "xpsql_value"
KEPT = 32


class Decoded(NamedTuple):
    """The rows of messages, in order, and the messages that could not be decoded."""

    rows: pa.Table
    skipped: list[Skipped]


def schema_of(listed: str) -> pa.Schema:
    """Return the columns that a schema in Spark's words names, in Arrow's types.

    Raises:
        StatementError: it is not a schema.
    """
    from ...engines.duckdb.connection import connect  # brings DuckDB
    from ...engines.spark_sql.columns import column_types

    columns = column_types(listed, None)
    items = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns.items())
    found = spark_schema(connect(1).sql(f"SELECT {items}").to_arrow_table().schema)
    if (wrong := next((field for field in found if pa.types.is_binary(field.type)), None)) is not None:
        raise StatementError(f"JSON has no BINARY, which the schema gives {wrong.name}. Make it STRING, and use unbase64().")
    return found


class Decoder:
    """Decodes messages to rows; from any thread, and in any process.

    Args:
        schema: of the JSON objects that values are; None: the rows are the messages themselves.
    """

    def __init__(self, schema: pa.Schema | None) -> None:
        self.schema = MESSAGE if schema is None else schema
        self._json = schema is not None
        self._own = threading.local()

    def __reduce__(self) -> tuple[type[Decoder], tuple[pa.Schema | None]]:
        return Decoder, (self.schema if self._json else None,)

    def decode(self, messages: Sequence[Message], needed: Sequence[str]) -> Decoded:
        """Return the needed columns of messages; one that is skipped is named by its place among them.

        A value is not a row if it is not a JSON object, or has a field that cannot be converted to its column's type; missing
        fields are NULL. Without a schema, a message is not a row if a text that is needed is not UTF-8.
        """
        from confluent_kafka import Message

        if not self._json:
            return plain(messages, needed)
        return self.objects(pa.array(list(map(Message.value, messages)), pa.binary()), np.arange(len(messages)), needed)

    def objects(self, values: pa.Array, offsets: NDArray[np.int64], needed: Sequence[str]) -> Decoded:
        """Return the needed columns of JSON objects, binary[n], each with its number, int64[n]."""
        texts, good = as_texts(values)
        found = self._objects(texts.filter(pa.array(good)), offsets[good], needed)
        return Decoded(found.rows, sorted([*found.skipped, *(Skipped(int(offset), NO_UTF8) for offset in offsets[~good])]))

    def _objects(self, texts: pa.Array, offsets: NDArray[np.int64], needed: Sequence[str]) -> Decoded:
        """Return the columns of JSON texts, string[n], and the texts that are no objects or do not fit."""
        fields = tuple(self.schema.field(name) for name in needed)
        texts = settled(texts, {field.name: shape_of(field.type) for field in fields}, strict=False)
        inner = (
            f"SELECT CASE WHEN TRY(json_type({VALUE})) = 'OBJECT' THEN {transformed(shape(fields))} END AS made FROM {VALUE}"
        )
        items = ", ".join(f"made.{quoted(field.name)} AS {quoted(field.name)}" for field in fields)
        objects = self._query(f"SELECT {items}, made IS NULL AS {quoted(VALUE)} FROM ({inner})", texts)
        bad = flags(objects[VALUE])
        reasons = {int(number): NO_OBJECT for number in np.flatnonzero(bad)}
        rows = objects.select(list(needed)).cast(pa.schema(fields))
        for name, numbers in self._misfits(texts, rows, ~bad).items():
            kind = type_words(self.schema.field(name).type)
            reasons = {int(number): f"{name} does not become {kind}" for number in numbers} | reasons
        if not reasons:
            return Decoded(rows, [])
        wrong = np.array(sorted(reasons))
        rows = rows.filter(pa.array(~np.isin(np.arange(len(texts)), wrong)))
        return Decoded(rows, [Skipped(int(offsets[number]), reasons[number]) for number in wrong.tolist()])

    def _misfits(self, texts: pa.Array, rows: pa.Table, objects: Flags) -> dict[str, NDArray[np.intp]]:
        """Return the numbers of the objects that have a field which could not be converted, by column.

        Every field can become a text, so a text where the column is NULL shows a field that could not be converted.
        """
        names = [field.name for field in rows.schema if field.type != pa.string() and rows[field.name].null_count]
        nulls = {name: found for name in names if (found := flags(pc.is_null(rows[name])) & objects).any()}
        if not nulls:
            return {}
        doubtful = np.logical_or.reduce(list(nulls.values()))
        there = transformed(shape(tuple(pa.field(name, pa.string()) for name in nulls)))
        items = ", ".join(f"made.{quoted(name)} IS NOT NULL AS {quoted(name)}" for name in nulls)
        found = self._query(f"SELECT {items} FROM (SELECT {there} AS made FROM {VALUE})", texts.filter(pa.array(doubtful)))
        numbers = np.flatnonzero(doubtful)
        return {name: numbers[flags(found[name]) & null[doubtful]] for name, null in nulls.items()}

    def _query(self, sql: str, texts: pa.Array) -> pa.Table:
        connection = self._connection()
        connection.register(VALUE, pa.table({VALUE: texts}))
        try:
            return connection.sql(sql).to_arrow_table()
        finally:
            connection.unregister(VALUE)

    def _connection(self) -> DuckDBPyConnection:
        from ...engines.duckdb.connection import connect

        connection: DuckDBPyConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = connect(1)
        return connection


def transformed(wanted: str) -> str:
    """Return the call that makes a structure of the JSON text VALUE."""
    return f"json_transform({VALUE}, {wanted})"


def flags(found: pa.Array | pa.ChunkedArray) -> Flags:
    """Return flags of rows, without NULL, as bool[n]."""
    return np.asarray(found.to_numpy(zero_copy_only=False) if isinstance(found, pa.Array) else found.to_numpy(), np.bool_)


@functools.lru_cache(maxsize=KEPT)
def shape(fields: tuple[pa.Field, ...]) -> str:
    """Return the structure of a JSON object with some fields, as DuckDB's SQL writes it."""
    text = json.dumps({field.name: duckdb_type(field.type) for field in fields})
    return "'" + text.replace("'", "''") + "'"


def offsets_of(messages: Sequence[Message]) -> NDArray[np.int64]:
    """Return the offsets of messages, int64[n]."""
    from confluent_kafka import Message

    return np.fromiter(map(Message.offset, messages), np.int64, len(messages))


def as_texts(values: pa.Array) -> tuple[pa.Array, Flags]:
    """Return values, binary[n], as texts, and which are UTF-8; those that are not are NULL."""
    try:
        return values.cast(pa.string()), np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        texts = pa.array(list(map(text_of, values.to_pylist())), pa.string())
        return texts, flags(pc.equal(pc.is_null(values), pc.is_null(texts)))


def text_of(value: bytes | None) -> str | None:
    """Return a value as text; None where it is not UTF-8."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def plain(messages: Sequence[Message], needed: Sequence[str]) -> Decoded:
    """Return columns of messages unchanged."""
    from confluent_kafka import Message

    count = len(messages)
    columns: dict[str, Callable[[], pa.Array]] = {
        "key": lambda: pa.array(list(map(Message.key, messages)), pa.binary()),
        "value": lambda: pa.array(list(map(Message.value, messages)), pa.binary()),
        "topic": lambda: pa.array(list(map(Message.topic, messages)), pa.string()),
        "partition": lambda: pa.array(list(map(Message.partition, messages)), pa.int32()),
        "offset": lambda: pa.array(offsets_of(messages)),
        "timestamp": lambda: pa.array(list(map(microseconds, messages)), pa.int64()).cast(TIMESTAMP),
    }
    whole, made = np.ones(count, np.bool_), []
    for name in needed:
        column = columns[name]()
        if pa.types.is_binary(column.type):
            column, good = as_texts(column)
            whole &= good
        made.append(column)
    rows = pa.Table.from_arrays(made, schema=pa.schema([MESSAGE.field(name) for name in needed]))
    return Decoded(rows.filter(pa.array(whole)), [Skipped(int(number), NO_UTF8) for number in np.flatnonzero(~whole)])


def microseconds(message: Message) -> int | None:
    """Return when a message was produced, or appended to its topic, since 1970; None where it has no timestamp."""
    kind, milliseconds = message.timestamp()
    return 1000 * milliseconds if kind else None
