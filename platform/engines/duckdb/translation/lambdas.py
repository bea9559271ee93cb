"""Spark's higher-order functions on DuckDB: the types of their parameters, and what they become."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from sqlglot import exp

from ....errors import StatementError
from .calls import call, filled, number, strict

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

    from .calls import SparkCall

Kinds = list["DuckDBPyType | None"]


class HigherOrder(NamedTuple):
    """A function that takes lambdas.

    Attributes:
        parameters: (types of the other arguments) -> DuckDB types of a lambda's parameters, None where unknown.
        make: the rewritten call, whose arguments include rewritten lambdas.
    """

    parameters: Callable[[Kinds], list[str | None]]
    make: Callable[[SparkCall], exp.Expr]


def item(kind: DuckDBPyType | None) -> str | None:
    return str(kind.children[0][1]) if kind is not None and kind.id == "list" else None


def entry(kind: DuckDBPyType | None) -> list[str | None]:
    return [str(child) for _, child in kind.children] if kind is not None and kind.id == "map" else [None, None]


def substituted(function: exp.Expr, *values: exp.Expr) -> exp.Expr:
    """Return a lambda's body with its parameters replaced."""
    names = {parameter.name: value for parameter, value in zip(function.expressions, values, strict=False)}

    def replace(node: exp.Expr) -> exp.Expr:
        free = isinstance(node, exp.Identifier) and not isinstance(node.parent, exp.Column | exp.PropertyEQ)
        return names[node.name].copy() if free and node.name in names else node

    body: exp.Expr = function.this.copy().transform(replace)
    return body


def over(value: exp.Expr, entry: str, body: exp.Expr, function: str = "list_transform") -> exp.Expr:
    return call(function, value, exp.Lambda(this=body, expressions=[exp.to_identifier(entry)]))


def entry_of(function: exp.Expr) -> str:
    """Return the name of the one parameter that stands for those of a lambda, which hides no other around it."""
    return re.sub(r"\W", "_", "_".join(["xpsql", *(parameter.name.lower() for parameter in function.expressions)]))


def each(of: SparkCall) -> exp.Expr:
    """transform and filter; a second parameter counts from 0, DuckDB's from 1."""
    values, function = of.arguments
    name = "list_transform" if of.name == "transform" else "list_filter"
    if len(function.expressions) < 2:
        return call(name, values, function)
    first, index = function.expressions
    body = substituted(function, exp.to_identifier(first.name), filled(f'CAST("{index.name}" - 1 AS INTEGER)'))
    return call(name, values, exp.Lambda(this=body, expressions=[first, index]))


def tested(of: SparkCall) -> exp.Expr:
    return call(f"spark_{of.name}", call("list_transform", *of.arguments))


def folded(of: SparkCall) -> exp.Expr:
    values, zero, merge = of.arguments[:3]
    result = call("list_reduce", values, merge, zero)
    if len(of.arguments) == 3:
        return result
    finish = of.arguments[3]
    return call("list_extract", call("list_transform", call("list_value", result), finish), number(1))


def zipped(of: SparkCall) -> exp.Expr:
    left, right, function = of.arguments
    entry = entry_of(function)
    body = substituted(function, filled(f"{entry}[1]"), filled(f"{entry}[2]"))
    return strict(over(call("list_zip", left, right), entry, body), (left, right))


def map_filtered(of: SparkCall) -> exp.Expr:
    return by_entries(of, lambda key, value, body: body, "list_filter")


def keys_transformed(of: SparkCall) -> exp.Expr:
    return by_entries(of, lambda key, value, body: filled("{'key': :k, 'value': :v}", k=body, v=value))


def values_transformed(of: SparkCall) -> exp.Expr:
    return by_entries(of, lambda key, value, body: filled("{'key': :k, 'value': :v}", k=key, v=body))


def by_entries(
    of: SparkCall, make: Callable[[exp.Expr, exp.Expr, exp.Expr], exp.Expr], function: str = "list_transform"
) -> exp.Expr:
    """Return a call over the entries of a map, as a map; `make` gets an entry's key and value and the lambda's body."""
    values, given = of.arguments
    entry = entry_of(given)
    key, value = filled(f"{entry}.key"), filled(f"{entry}.value")
    body = make(key, value, substituted(given, key, value))
    return call("map_from_entries", over(call("map_entries", values), entry, body, function))


def compared(of: SparkCall) -> NoReturn:
    """Refuse array_sort with a comparison; alone it takes no lambda.

    Raises:
        StatementError: always.
    """
    raise StatementError("array_sort takes no comparison here. Sort by the values of transform(...), or use sort_array.")


def elements(kinds: Kinds) -> list[str | None]:
    return [item(kinds[0]), "INTEGER"]


def accumulation(kinds: Kinds) -> list[str | None]:
    return [str(kinds[1]) if kinds[1] is not None else None, item(kinds[0])]


HIGHER_ORDER: dict[str, HigherOrder] = {
    "transform": HigherOrder(elements, each),
    "filter": HigherOrder(elements, each),
    "exists": HigherOrder(elements, tested),
    "forall": HigherOrder(elements, tested),
    "aggregate": HigherOrder(accumulation, folded),
    "zip_with": HigherOrder(lambda kinds: [item(kinds[0]), item(kinds[1])], zipped),
    "array_sort": HigherOrder(elements, compared),
    "map_filter": HigherOrder(lambda kinds: entry(kinds[0]), map_filtered),
    "transform_keys": HigherOrder(lambda kinds: entry(kinds[0]), keys_transformed),
    "transform_values": HigherOrder(lambda kinds: entry(kinds[0]), values_transformed),
}
