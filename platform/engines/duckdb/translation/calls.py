"""Calls of Spark's functions as they are translated, and small makers of DuckDB nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from ....errors import StatementError
from ...spark_sql.declared import EXPANDED
from .kinds import spark_name
from .typer import Typer

ARRAY, MAP = ("list", "array"), ("map",)
NULLS = ("null", '"null"', "sqlnull")
"""The type of NULL, which fits each."""
OF_ARRAYS = (
    *("array_append", "array_compact", "array_contains", "array_distinct", "array_except", "array_insert", "array_intersect"),
    *("array_join", "array_max", "array_min", "array_position", "array_prepend", "array_remove", "array_size", "array_sort"),
    *("array_union", "arrays_overlap", "arrays_zip", "flatten", "get", "map_from_arrays", "map_from_entries", "slice"),
    "sort_array",
    *("aggregate", "exists", "filter", "forall", "transform", "zip_with"),
)
OF_MAPS = (
    *("map_concat", "map_contains_key", "map_entries", "map_filter", "map_keys", "map_values"),
    *("transform_keys", "transform_values"),
)
TAKES = {
    **dict.fromkeys(OF_ARRAYS, ARRAY),
    **dict.fromkeys(OF_MAPS, MAP),
    **dict.fromkeys(("size", "element_at", "try_element_at"), (*ARRAY, *MAP)),
}
"""The kinds of type that the first argument of a function may have."""
OF_ALL = frozenset(
    [
        *("array_except", "array_intersect", "array_union", "arrays_overlap", "arrays_zip", "map_concat", "map_from_arrays"),
        "zip_with",
    ]
)
"""Functions of which this holds for each argument but lambdas."""


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return a call that DuckDB sees exactly as named."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(value: exp.Expr, to: str) -> exp.Cast:
    """Return DuckDB's own cast, `to` in DuckDB's words."""
    return exp.Cast(this=value, to=exp.DataType.build(to, dialect="duckdb", udt=True))


def number(value: int) -> exp.Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def string(value: str) -> exp.Literal:
    return exp.Literal.string(value)


def case(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr | None) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=value, expression=exp.null()))


def strict(made: exp.Expr, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Return what a call makes; NULL where an argument is."""
    return case(exp.or_(*(exp.Is(this=item.copy(), expression=exp.null()) for item in arguments)), exp.null(), made)


def function(body: exp.Expr, *parameters: str) -> exp.Lambda:
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name) for name in parameters])


def wrap(call: exp.Expr, template: str) -> exp.Expr:
    """Mark a call to be wrapped together with its FILTER, OVER and other clauses; `template` is DuckDB's SQL, `:x` the whole
    call."""
    call.meta["wrap"] = template
    return call


def beside(call: exp.Expr, **others: exp.Expr) -> exp.Expr:
    """Give the template of a call's `wrap` other calls, by name, which get the clauses of this one."""
    call.meta["beside"] = others
    return call


def filled(template: str, **values: exp.Expr) -> exp.Expr:
    """Return a DuckDB expression with `:name` replaced by nodes."""
    tree: exp.Expr = exp.maybe_parse(template, dialect="duckdb", copy=False)
    for hole in list(tree.find_all(exp.Placeholder)):
        hole.replace(values[hole.name].copy())
    return tree


class SparkCall(NamedTuple):
    """A call whose arguments are rewritten already."""

    name: str
    arguments: list[exp.Expr]
    node: exp.Expr
    typer: Typer

    def kind(self, index: int) -> str | None:
        """Return the id of an argument's type: "list", "decimal", "varchar"."""
        kind = self.typer.type_of(self.arguments[index])
        return kind.id if kind is not None else None

    def literal(self, index: int, what: str) -> str:
        """Return an argument that must be a literal text.

        Raises:
            StatementError: it is not.
        """
        node = self.arguments[index]
        if isinstance(node, exp.Literal) and node.is_string:
            return str(node.this)
        raise StatementError(f"{self.name} needs {what} as a literal, got {node.sql('spark')}.")


Maker = Callable[[SparkCall], exp.Expr]


def renamed(name: str, template: str = "") -> Maker:
    """Return a maker of the same call under DuckDB's name; `template` as of `wrap`."""

    def make(of: SparkCall) -> exp.Expr:
        made = call(name, *of.arguments)
        return wrap(made, template) if template else made

    return make


def check_container(of: SparkCall, written: str) -> None:
    """Refuse a call whose argument is not the array or the map that the function needs: DuckDB takes some of them of a text,
    and calls others by its own names. What a function of ours stands for is refused by the name of that function.

    Args:
        written: the function's name in the query.

    Raises:
        StatementError: says what the argument is.
    """
    takes = TAKES.get(of.name)
    if takes is None or EXPANDED in of.node.meta:
        return
    values = [item for item in of.arguments if not isinstance(item, exp.Lambda)]
    for item in values if of.name in OF_ALL else values[:1]:
        check_kind(item, takes, written, of.typer)


def check_kind(item: exp.Expr, takes: Sequence[str], written: str, typer: Typer) -> None:
    """Refuse a value of another kind, where that is known.

    Args:
        takes: the kinds of type that it may have.
        written: what takes it.

    Raises:
        StatementError: says what the value is.
    """
    found = typer.type_of(item)
    if found is None or found.id in (*takes, *NULLS):
        return
    wanted = " or ".join(words for kind, words in (("list", "an array"), ("map", "a map")) if kind in takes)
    remedy = " split(text, ',') makes an array of a text." if found.id == "varchar" and "list" in takes else ""
    raise StatementError(f"{written} takes {wanted}, got a value of type {spark_name(found)}.{remedy}")
