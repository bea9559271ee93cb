"""Functions that make rows: explode and its kin, stack, inline and range, in FROM, LATERAL VIEW and SELECT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ....errors import StatementError
from ...spark_sql import row_makers
from ...spark_sql.words import EXPLODES
from .calls import call, case, cast, number, string
from .kinds import child
from .kinds import names as field_names

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

    from .typer import Typer

GENERATORS = EXPLODES | {"range"}
NAMES = {"varchar": "string", "integer": "int", "blob": "binary"}


def generated(node: exp.Anonymous, typer: Typer, names: list[str], outer: bool = False) -> list[exp.Expr]:
    """Return the columns that a call makes, each with `unnest` in it, aliased; all of them advance together.

    Args:
        node: the call, its arguments rewritten.
        typer: types of the arguments.
        names: names given to the columns; none: Spark's own.
        outer: keep a row of NULLs where there is nothing to make rows of.
    """
    name = node.name.lower()
    outer = outer or name.endswith("_outer")
    name = name.removesuffix("_outer")
    if name == "json_tuple":
        value, first, *others = node.expressions
        columns = fields_of_json(value, first, *others)
    else:
        columns = stacked(node, typer) if name == "stack" else unnested(name, argument_of(node), typer, outer)
    if names and len(names) != len(columns):
        made = f" ({', '.join(own for own, _ in columns)})"
        raise StatementError(row_makers.other_names(node.name, len(columns), made, len(names)))
    return [exp.alias_(value, names[k] if names else own, quoted=True) for k, (own, value) in enumerate(columns)]


def argument_of(node: exp.Anonymous) -> exp.Expr:
    if len(node.expressions) != 1:
        raise StatementError(row_makers.not_one_array(node.name, len(node.expressions)))
    value: exp.Expr = node.expressions[0]
    return value


def check_alone(node: exp.Anonymous) -> None:
    """Require that a function that makes rows is no part of an expression.

    Raises:
        StatementError: it is.
    """
    parent = node.parent.parent if isinstance(node.parent, exp.Alias | exp.Aliases) else node.parent
    if not isinstance(parent, exp.Select | exp.Lateral | exp.Table | None):
        raise StatementError(row_makers.not_alone(node.name))


def unnested(name: str, value: exp.Expr, typer: Typer, outer: bool) -> list[tuple[str, exp.Expr]]:
    kind = typer.type_of(value)
    entries = kind is not None and kind.id == "map"
    if kind is not None and kind.id not in ("map", "list", "array", '"NULL"', "sqlnull"):
        raise StatementError(row_makers.no_array(name, value.sql(), NAMES.get(kind.id, kind.id)))
    values = call("map_entries", value) if entries else value
    items = kept(values) if outer else values
    if name == "inline" and kind is None and typer.connection is not None:  # no such column: the engine says so
        return [("col", value)]
    if name == "inline":
        return [(field, call("struct_extract", unnest(items), string(field))) for field in fields(kind)]
    made: list[tuple[str, exp.Expr]]
    if entries:
        made = [(part, call("struct_extract", unnest(items), string(part))) for part in ("key", "value")]
    else:
        made = [("col", unnest(items))]
    if name == "posexplode":
        counted = call("generate_series", number(0), exp.Sub(this=call("len", values.copy()), expression=number(1)))
        made.insert(0, ("pos", cast(unnest(kept(counted) if outer else counted), "INTEGER")))
    return made


def fields_of_json(value: exp.Expr, *names: exp.Expr) -> list[tuple[str, exp.Expr]]:
    return [(f"c{k}", field_of_json(value.copy(), name)) for k, name in enumerate(names)]


def field_of_json(value: exp.Expr, name: exp.Expr) -> exp.Expr:
    """Return a field of an object; DuckDB has no paths of names with other characters."""
    if isinstance(name, exp.Literal) and name.name.isascii() and name.name.isidentifier():
        return call("xpsql_json_plain_part", value, string(f"$.{name.name}"))
    path = exp.DPipe(this=exp.DPipe(this=string("$['"), expression=name), expression=string("']"))
    return call("xpsql_json_part", value, path)


def fields(kind: DuckDBPyType | None) -> list[str]:
    if kind is None or kind.id != "list" or child(kind, 0).id != "struct":
        raise StatementError(row_makers.no_array("inline", "", ""))
    return field_names(child(kind, 0))


def unnest(values: exp.Expr) -> exp.Expr:
    return call("unnest", values.copy())


def kept(values: exp.Expr) -> exp.Expr:
    """Return the list, or [NULL] for an absent or empty one."""
    some = exp.GT(this=call("len", values.copy()), expression=number(0))
    return case(some, values.copy(), call("list_value", exp.null()))


def stacked(node: exp.Anonymous, typer: Typer) -> list[tuple[str, exp.Expr]]:
    rows, values = int(node.expressions[0].sql()), node.expressions[1:]
    if rows < 1 or not values:
        raise StatementError("stack takes the number of rows, 1 or more, and their values.")
    width = -(-len(values) // rows)
    for column in range(width):
        kinds = {str(kind) for value in values[column::width] if (kind := typer.type_of(value)) is not None} - {'"NULL"'}
        if len(kinds) > 1:
            raise StatementError(f"stack puts values of one type below each other; column {column + 1} has {len(kinds)} types.")
    padded = [*values, *(exp.null() for _ in range(width * rows - len(values)))]
    return [(f"col{k}", call("unnest", call("list_value", *(v.copy() for v in padded[k::width])))) for k in range(width)]


def range_query(node: exp.Anonymous) -> exp.Select:
    """Return range(end), range(start, end[, step]) as a query of its one column, id."""
    arguments = node.expressions[:3]
    table = exp.Table(this=call("range", *(cast(item, "BIGINT") for item in arguments)))
    return exp.select(exp.alias_(exp.column("range"), "id")).from_(table)


def generator_query(node: exp.Anonymous, typer: Typer, names: list[str], outer: bool = False) -> exp.Select:
    """Return a generator in FROM or LATERAL as a query."""
    if node.name.lower() == "range":
        return range_query(node)
    return exp.Select(expressions=generated(node, typer, names, outer))
