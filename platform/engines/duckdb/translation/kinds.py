"""The types of DuckDB: what one of them is called, and the parts of nested ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

INSTANT = "timestamp with time zone"


def child(kind: DuckDBPyType, index: int) -> DuckDBPyType:
    """Return a part's type: of a list's elements, a map's keys (0) or values (1), or a struct's field."""
    return cast("DuckDBPyType", kind.children[index][1])


def names(kind: DuckDBPyType) -> list[str]:
    """Return the names of a struct's fields."""
    return [name for name, _ in kind.children]
