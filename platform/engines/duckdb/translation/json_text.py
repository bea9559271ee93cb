"""Functions of JSON: to_json writes values as Spark does, from_json and get_json_object read them.

Source: Spark's org.apache.spark.sql.catalyst.json.JacksonGenerator.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ....errors import StatementError
from .calls import SparkCall, call, case, cast, filled, function, not_null, strict, string
from .casts import concatenated, string_of
from .kinds import INSTANT, child, names

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

PLAIN_PATH = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])*")
PLAIN = frozenset(("tinyint", "smallint", "integer", "bigint", "hugeint", "decimal", "boolean"))
INSTANT_FORMAT = '"%Y-%m-%dT%H:%M:%S.%gZ"'


def json_text(value: exp.Expr, kind: DuckDBPyType | None) -> exp.Expr:
    """Return a value that is not NULL as JSON. Fields of structs that are NULL are left out, entries of maps are not."""
    if kind is None:
        return cast(call("to_json", value), "VARCHAR")
    if kind.id == "list":
        return concatenated(string("["), joined(value, or_null(exp.column("e"), child(kind, 0))), string("]"))
    if kind.id == "map":
        key = quoted(string_of(filled("e.key"), child(kind, 0)))
        entry = concatenated(key, string(":"), or_null(filled("e.value"), child(kind, 1)))
        return concatenated(string("{"), joined(call("map_entries", value), entry), string("}"))
    if kind.id == "struct":
        fields = [
            field(name, call("struct_extract", value, string(name)), child(kind, k)) for k, name in enumerate(names(kind))
        ]
        present = call("array_to_string", call("list_value", *fields), string(","))
        return concatenated(string("{"), exp.Coalesce(this=present, expressions=[string("")]), string("}"))
    if kind.id in PLAIN:
        return string_of(value.copy(), kind)
    if kind.id in ("double", "float"):
        finite = call("isfinite", value.copy())
        return case(finite, string_of(value.copy(), kind), quoted(string_of(value.copy(), kind)))
    if kind.id == INSTANT:
        return call("strftime", value.copy(), string(INSTANT_FORMAT))
    return quoted(call("base64", value.copy()) if kind.id == "blob" else string_of(value.copy(), kind))


def field(name: str, value: exp.Expr, kind: DuckDBPyType) -> exp.Expr:
    """Return `"name":value`, NULL where the value is."""
    return case(not_null(value.copy()), concatenated(quoted(string(name)), string(":"), json_text(value, kind)), None)


def or_null(value: exp.Expr, kind: DuckDBPyType) -> exp.Expr:
    return case(not_null(value.copy()), json_text(value, kind), string("null"))


def joined(values: exp.Expr, item: exp.Expr) -> exp.Expr:
    return call("array_to_string", call("list_transform", values.copy(), function(item, "e")), string(","))


def quoted(text: exp.Expr) -> exp.Expr:
    return cast(call("to_json", text), "VARCHAR")


def from_json(of: SparkCall) -> exp.Expr:
    schema = of.literal(1, "its schema")
    try:
        kind = exp.DataType.build(schema, dialect="spark") if "<" in schema.split(" ")[0] else struct_type(schema)
    except Exception as error:
        raise StatementError(f"{schema!r} is not a schema: write 'a INT, b STRING' or 'ARRAY<INT>'.") from error
    if not kind.is_type("struct"):
        return filled("from_json(TRY_CAST(:j AS JSON), :shape)", j=of.arguments[0], shape=string(json_shape(kind)))
    settled = filled("xpsql_json_settled(:j, :fields)", j=of.arguments[0], fields=string(json.dumps(json_fields(kind))))
    return filled("from_json(TRY_CAST(:j AS JSON), :shape)", j=settled, shape=string(json_shape(kind)))


def json_fields(kind: exp.DataType) -> Any:
    """Return a type as functions of JSON have it: see `Shape` there."""
    if kind.is_type("struct"):
        return {field.name: json_fields(field.args["kind"]) for field in kind.expressions}
    return [json_fields(part) for part in kind.expressions] if kind.is_type("array", "map") else kind.sql("duckdb")


def struct_type(schema: str) -> exp.DataType:
    return exp.DataType.build(f"STRUCT<{schema}>", dialect="spark")


def json_shape(kind: exp.DataType) -> str:
    if kind.is_type("array"):
        return f"[{json_shape(kind.expressions[0])}]"
    if kind.is_type("struct"):
        return "{" + ", ".join(f'"{field.name}": {json_shape(field.args["kind"])}' for field in kind.expressions) + "}"
    return f'"{kind.sql("duckdb")}"'


def get_json_object(of: SparkCall) -> exp.Expr:
    path = of.arguments[1]
    plain = isinstance(path, exp.Literal) and PLAIN_PATH.fullmatch(path.name)
    return call("xpsql_json_plain_part" if plain else "xpsql_json_part", *of.arguments)


def to_json(of: SparkCall) -> exp.Expr:
    """to_json: of a value with parts.

    Raises:
        StatementError: of any other.
    """
    if of.kind(0) not in ("struct", "map", "list", "null", None):
        raise StatementError("to_json takes a struct, a map or an array. Write to_json(struct(x)).")
    return strict(json_text(of.arguments[0], of.typer.type_of(of.arguments[0])), of.arguments[:1])
