"""to_json: values as JSON, as Spark writes them.

Source: Spark's org.apache.spark.sql.catalyst.json.JacksonGenerator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from .calls import call, case, cast, filled, function, not_null, string
from .casts import concatenated, string_of
from .kinds import INSTANT, child, names

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

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
