"""The types of DuckDB: what one of them is called, and the parts of nested ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

INSTANT = "timestamp with time zone"
SPARK_NAMES = {
    "integer": "int",
    "varchar": "string",
    "blob": "binary",
    "timestamp with time zone": "timestamp",
    "timestamp": "timestamp_ntz",
    "hugeint": "decimal(38,0)",
    "null": "void",
    '"null"': "void",
    "sqlnull": "void",
}


def child(kind: DuckDBPyType, index: int) -> DuckDBPyType:
    """Return a part's type: of a list's elements, a map's keys (0) or values (1), or a struct's field."""
    return cast("DuckDBPyType", kind.children[index][1])


def names(kind: DuckDBPyType) -> list[str]:
    """Return the names of a struct's fields."""
    return [name for name, _ in kind.children]


def spark_name(kind: DuckDBPyType) -> str:
    """Return Spark's name of a type of DuckDB's."""
    if kind.id == "decimal":
        return str(kind).lower()
    children: list[Any] = kind.children if kind.id in ("struct", "list", "map") else []
    if kind.id == "struct":
        return f"struct<{','.join(f'{name}:{spark_name(child)}' for name, child in children)}>"
    if children:
        inner = ",".join(spark_name(child) for _, child in children)
        return f"{'array' if kind.id == 'list' else 'map'}<{inner}>"
    return SPARK_NAMES.get(kind.id, kind.id)
