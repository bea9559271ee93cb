"""Types of results: what Spark would call them, whatever the embedded engine computed with."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")

NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    pa.null(): "void",
}

SIMPLER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def spark_type(kind: pa.DataType, named: Callable[[str], str] = str) -> str:
    """Return Spark's name of a type: "bigint", "array<string>", "struct<a:int,b:string>".

    Args:
        named: how names of fields are written; Spark itself shows them as they are.

    Raises:
        TypeError: a type that Spark does not have.
    """
    kind = simple(kind)
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type, named)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type, named)},{spark_type(kind.item_type, named)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{named(field.name)}:{spark_type(field.type, named)}' for field in kind)}>"
    if pa.types.is_decimal(kind) and not pa.types.is_decimal256(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if kind not in NAMES:
        raise TypeError(f"a result column must have a type that Spark has, got {kind}; CAST it in the query")
    return NAMES[kind]


def type_words(kind: pa.DataType) -> str:
    """Return a type in Spark's words, in Arrow's where Spark has none."""
    try:
        return spark_type(kind)
    except TypeError:
        return str(kind)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return a result's columns in the types that Spark gives them.

    Unsigned integers become the next wider signed type, 64-bit ones decimal(20,0); timestamps with and without a zone become
    instants in UTC.
    """
    return pa.schema([pa.field(field.name, simple(field.type), field.nullable) for field in schema])


def simple(kind: pa.DataType) -> pa.DataType:
    """Return Spark's type for one of the embedded engine's."""
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_dictionary(kind):
        return simple(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(simple(kind.key_type), simple(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, simple(field.type)) for field in kind])
    if any(is_list(kind) for is_list in LISTS):
        return pa.list_(simple(kind.value_type))
    return SIMPLER.get(kind, kind)


def duckdb_type(kind: pa.DataType) -> str:
    """Return the embedded engine's name of Spark's type for one of Arrow's, for a CAST."""
    kind = simple(kind)
    if pa.types.is_list(kind):
        return f"{duckdb_type(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.item_type)})"
    if pa.types.is_struct(kind):
        fields = ", ".join(f"{quoted(field.name)} {duckdb_type(field.type)}" for field in kind)
        return f"STRUCT({fields})"
    names = {"string": "VARCHAR", "binary": "BLOB", "timestamp": "TIMESTAMPTZ", "void": '"NULL"'}
    return names.get(spark_type(kind), spark_type(kind).upper())


def quoted(name: str) -> str:
    """Return a name as the embedded engine's SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def with_spark_types(query: str, found: pa.Schema) -> str:
    """Return a query of the embedded engine's SQL with its columns cast to Spark's types, itself where all have them.

    Args:
        query: a query in the embedded engine's SQL.
        found: its result's schema, as the embedded engine describes it; names may repeat. A column whose type Arrow does not
            tell has metadata.
    """
    wanted = spark_schema(found)
    changed = [a.metadata is not None or not same(a.type, b.type) for a, b in zip(found, wanted, strict=True)]
    if not any(changed):
        return query
    inner = ", ".join(f"c{number}" for number in range(len(found)))
    items = (
        f"{f'CAST(c{number} AS {duckdb_type(field.type)})' if changed[number] else f'c{number}'} AS {quoted(field.name)}"
        for number, field in enumerate(wanted)
    )
    return f"SELECT {', '.join(items)} FROM ({query}) AS xpsql_result({inner})"


def same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a type needs no cast; the zone of an instant may go by several names."""
    if pa.types.is_timestamp(found):
        return found.tz is not None and found.unit == "us"
    return bool(found == wanted)


def is_known(kind: pa.DataType) -> bool:
    """Return whether Spark has a type."""
    try:
        spark_type(kind)
    except TypeError:
        return False
    return True


def is_category(kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_dictionary(kind):
        return is_category(kind.value_type)
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_boolean(kind) or t.is_integer(kind) or t.is_date(kind))
