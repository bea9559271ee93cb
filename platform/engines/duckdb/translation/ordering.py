"""The order of structs and arrays: where their parts are NULL, Spark takes these as the smallest, DuckDB as the largest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from .calls import call, case, filled, function, not_null, string
from .kinds import child, names

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

    from .typer import Typer


def has_parts(kind: DuckDBPyType | None) -> bool:
    return kind is not None and kind.id in ("struct", "list")


def ordered(value: exp.Expr, kind: DuckDBPyType | None) -> exp.Expr:
    """Return what DuckDB puts in the order that a value has in Spark: the value itself where it has no parts."""
    if kind is None or not has_parts(kind):
        return value
    if kind.id == "list":
        return call("list_transform", value.copy(), function(call("row", *part(exp.column("e"), child(kind, 0))), "e"))
    fields = [(call("struct_extract", value.copy(), string(name)), child(kind, k)) for k, name in enumerate(names(kind))]
    return case(not_null(value.copy()), call("row", *(side for field in fields for side in part(*field))), None)


def part(value: exp.Expr, kind: DuckDBPyType) -> tuple[exp.Expr, exp.Expr]:
    """Return a part with what comes before it in the order: whether it is there at all."""
    return not_null(value.copy()), ordered(value, kind)


def sorted_array(name: str, values: exp.Expr, others: Sequence[exp.Expr], kind: DuckDBPyType | None) -> exp.Expr:
    """Return a call of a macro that sorts an array; one of structs or arrays by the keys of their order."""
    element = child(kind, 0) if kind is not None and kind.id == "list" else None
    if element is None or not has_parts(element):
        return call(name, values, *others)
    key = ordered(exp.column("e"), element)
    pair = case(not_null(exp.column("e")), call("row", key, exp.column("e")), None)
    pairs = call(name, call("list_transform", values, function(pair, "e")), *others)
    return call("list_transform", pairs, function(filled("e[2]"), "e"))


def ordered_rule(node: exp.Ordered, typer: Typer) -> exp.Expr:
    """ORDER BY a struct or an array."""
    value = meant(node)
    kind = typer.type_of(value)
    if has_parts(kind):
        node.set("this", ordered(value, kind))
    return node


def meant(node: exp.Ordered) -> exp.Expr:
    """Return what ORDER BY orders by: for the alias of a column of the result what it stands for."""
    value: exp.Expr = node.this
    order = node.parent
    if not isinstance(value, exp.Column) or value.table or order is None or not isinstance(order.parent, exp.Select):
        return value
    named: dict[str, exp.Expr] = {i.alias.lower(): i.this for i in order.parent.expressions if isinstance(i, exp.Alias)}
    return named.get(value.name.lower(), value)
