"""Results of Spark's queries in Arrow: their columns in Spark's types, their rows whole or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ...quoting import literal, quoted
from ...spark_types import TIMESTAMP, spark_type
from .applications import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP,
    "void": pa.null(),
}


def schema_of(frame: DataFrame) -> pa.Schema:
    """Return a result's columns; every column can be NULL.

    Raises:
        StatementError: a column has a type that results cannot have.
    """
    return pa.schema([pa.field(field.name, arrow_type(field.dataType, field.name)) for field in frame.schema.fields])


def arrow_type(kind: DataType, column: str) -> pa.DataType:
    """Return one of Spark's types in Arrow; a timestamp without zone is an instant in UTC, as on the embedded engine."""
    from pyspark.sql import types

    match kind:
        case types.StringType() | types.CharType() | types.VarcharType():
            return pa.string()
        case types.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case types.ArrayType(elementType=types.NullType(), containsNull=False):
            raise StatementError(f"Column {column} is an empty array() without a type; CAST(array() AS ARRAY<INT>) has one.")
        case types.MapType(keyType=types.NullType()):
            raise StatementError(f"Column {column} is an empty map() without a type; CAST(map() AS MAP<STRING, INT>) has one.")
        case types.ArrayType():
            return pa.list_(arrow_type(kind.elementType, column))
        case types.MapType():
            return pa.map_(arrow_type(kind.keyType, column), arrow_type(kind.valueType, column))
        case types.StructType():
            return pa.struct([pa.field(field.name, arrow_type(field.dataType, column)) for field in kind.fields])
        case types.DayTimeIntervalType():
            return pa.duration("us")
    if kind.simpleString() not in PLAIN:
        raise StatementError(
            f"Column {column} has type {kind.simpleString()}, which results cannot have; CAST it in the query."
        )
    return PLAIN[kind.simpleString()]


def instants(frame: DataFrame) -> DataFrame:
    """Return a frame whose timestamps without zone are what results show: instants in UTC, whatever zone the session is in."""
    from pyspark.sql.functions import col, expr

    kinds = {field.name: field.dataType for field in frame.schema.fields if "timestamp_ntz" in field.dataType.simpleString()}
    if not kinds:
        return frame
    if is_connect(frame.sparkSession):  # its settings are those of when the query runs, not of when it is made
        return frame.withColumns({name: expr(instant(quoted(name), kind)) for name, kind in kinds.items()})
    words = {name: spark_type(arrow_type(kind, name), quoted) for name, kind in kinds.items()}
    with configured(frame.sparkSession, {"spark.sql.session.timeZone": "UTC"}):
        return frame.withColumns({name: col(quoted(name)).cast(kind) for name, kind in words.items()})


def instant(value: str, kind: DataType, depth: int = 0) -> str:
    """Return the SQL of a value whose timestamps without zone are instants in UTC, whatever zone the session is in."""
    from pyspark.sql import types

    inner = f"x{depth}"
    match kind:
        case types.TimestampNTZType():
            return f"CAST(CONCAT(CAST({value} AS STRING), 'Z') AS TIMESTAMP)"
        case types.ArrayType():
            return f"TRANSFORM({value}, {inner} -> {instant(inner, kind.elementType, depth + 1)})"
        case types.MapType():
            keys = instant(f"{inner}.key", kind.keyType, depth + 1)
            pair = f"NAMED_STRUCT('key', {keys}, 'value', {instant(f'{inner}.value', kind.valueType, depth + 1)})"
            return f"MAP_FROM_ENTRIES(TRANSFORM(MAP_ENTRIES({value}), {inner} -> {pair}))"
        case types.StructType():
            fields = (
                f"{literal(one.name)}, {instant(f'{value}.{quoted(one.name)}', one.dataType, depth)}" for one in kind.fields
            )
            return f"IF({value} IS NULL, NULL, NAMED_STRUCT({', '.join(fields)}))"
    return value


def collected(frame: DataFrame) -> pa.Table:
    """Run a query and return all rows."""
    schema = schema_of(frame)
    if not hasattr(frame, "toArrow"):  # Spark 3
        return pa.Table.from_batches(streamed(frame), schema)
    return frame.toDF(*numbered(schema)).toArrow().rename_columns(schema.names).cast(schema)


def streamed(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Run a query partition by partition and yield its rows in order; what is held at once is a partition's rows.

    Executors hand over Arrow's own bytes, so no row becomes a Python object on the way.
    """
    schema = schema_of(frame)
    packed = frame.toDF(*numbered(schema)).mapInArrow(packs, "batch binary")
    for row in packed.toLocalIterator():
        with pa.ipc.open_stream(row["batch"]) as stream:
            yield from typed(stream, schema)


def typed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give Spark's batches of a result, whose columns are numbered, the result's names and types."""
    for batch in batches:
        yield batch.rename_columns(schema.names).cast(schema)


def numbered(schema: pa.Schema) -> list[str]:
    """Return names for columns whose own may come twice."""
    return [f"c{number}" for number in range(len(schema))]


def packs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn every batch into one value that holds it. Runs on executors."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def counted(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """Return a frame with the same rows, and a counter that has their number once an action has run."""
    from pyspark.sql import Observation, functions

    seen = Observation()
    return frame.observe(seen, functions.count(functions.lit(1)).alias("rows")), lambda: int(seen.get["rows"])


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings of a session until the block ends."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
