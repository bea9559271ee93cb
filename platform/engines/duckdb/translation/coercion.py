"""Type coercion: the common type of values of several types, in CASE, coalesce, a comparison, a column of UNION.

Source: Spark's org.apache.spark.sql.catalyst.analysis.AnsiTypeCoercion.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from ....errors import StatementError
from ...spark_sql.lists import is_packed, unpacked
from .calls import Maker, SparkCall, call, case, cast
from .casts import spark_cast
from .decimals import LARGEST, OF_INTEGERS, Decimal, decimal_of
from .kinds import INSTANT
from .typer import Typer

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

REALS = frozenset(("float", "double"))
ATOMIC = frozenset((*OF_INTEGERS, *REALS, "decimal", "varchar", "boolean", "date", INSTANT, "blob", "null"))
WORDS = {"varchar": "STRING", "integer": "INT", "blob": "BINARY", INSTANT: "TIMESTAMP"}
CONVERTED = frozenset(("varchar", "float"))  # what DuckDB compares with others in another way than Spark
Kind = str | Decimal


def kind_of(found: DuckDBPyType | None) -> Kind | None:
    """Return a type as `wider` takes it; None where it is nested or not known."""
    if found is None or found.id not in ATOMIC:
        return None
    return decimal_of(found) if found.id == "decimal" else found.id


def common(kinds: Sequence[Kind | None]) -> Kind | None:
    """Return the type that values of these types take; None where one is nested or not known.

    Raises:
        StatementError: there is none.
    """
    known = [kind for kind in kinds if kind is not None]
    return functools.reduce(wider, known) if known and len(known) == len(kinds) else None


def wider(a: Kind, b: Kind) -> Kind:
    """Return the type that values of two types take.

    Raises:
        StatementError: there is none.
    """
    if a == b or "null" in (a, b):
        return b if a == "null" else a
    if "varchar" in (a, b):
        other = b if a == "varchar" else a
        return "bigint" if other in OF_INTEGERS else "double" if is_number(other) else other
    if is_number(a) and is_number(b):
        return wider_number(a, b)
    if {a, b} == {"date", INSTANT}:
        return INSTANT
    raise StatementError(f"Values of the types {word(a)} and {word(b)} have no type in common. CAST one to the other's.")


def is_number(kind: Kind) -> bool:
    return isinstance(kind, Decimal) or kind in REALS or kind in OF_INTEGERS


def wider_number(a: Kind, b: Kind) -> Kind:
    if a in REALS or b in REALS:
        return "double"
    if not isinstance(a, Decimal) and not isinstance(b, Decimal):
        return max(a, b, key=lambda kind: OF_INTEGERS[kind])
    a, b = (kind if isinstance(kind, Decimal) else Decimal(OF_INTEGERS[kind], 0) for kind in (a, b))
    scale, whole = max(a.scale, b.scale), max(a.precision - a.scale, b.precision - b.scale)
    scale = max(min(scale, LARGEST - whole), 0)
    return Decimal(min(whole + scale, LARGEST), scale)


def word(kind: Kind) -> str:
    return str(kind) if isinstance(kind, Decimal) else WORDS.get(kind, kind.upper())


def converted(value: exp.Expr, kind: Kind | None, wanted: Kind) -> exp.Expr:
    """Return a value converted to another type; NULL has every type."""
    if kind in (wanted, "null"):
        return value
    if kind != "varchar":
        return cast(value, str(wanted).upper())
    return spark_cast(value, None, exp.DataType.build(str(wanted).upper(), dialect="duckdb"))


def alike(values: Sequence[exp.Expr], typer: Typer) -> list[exp.Expr]:
    """Return values converted to one type."""
    kinds = [kind_of(typer.type_of(value)) for value in values]
    wanted = common(kinds)
    if wanted is None:
        return list(values)
    return [converted(value, kind, wanted) for value, kind in zip(values, kinds, strict=True)]


def comparable(values: Sequence[exp.Expr], typer: Typer) -> list[exp.Expr]:
    """Return values that DuckDB compares as Spark does: it knows numbers, but not texts beside others, nor floats."""
    kinds = [kind_of(typer.type_of(value)) for value in values]
    wanted = common(kinds)
    if wanted is None or not CONVERTED & {*kinds}:
        return list(values)
    return [converted(value, kind, wanted) for value, kind in zip(values, kinds, strict=True)]


def of_one_type(name: str) -> Maker:
    """Return the maker of a call whose arguments have one type."""
    return lambda of: call(name, *alike(of.arguments, of.typer))


def nvl2(of: SparkCall) -> exp.Expr:
    return call("spark_nvl2", of.arguments[0], *alike(of.arguments[1:], of.typer))


def nullif(of: SparkCall) -> exp.Expr:
    value, absent = of.arguments
    left, right = comparable([value, absent], of.typer)
    return case(exp.EQ(this=left.copy(), expression=right), exp.null(), value)


def map_of(of: SparkCall) -> exp.Expr:
    keys, values = alike(of.arguments[::2], of.typer), alike(of.arguments[1::2], of.typer)
    return call("map", call("list_value", *keys), call("list_value", *values))


def comparison_rule(node: exp.Binary, typer: Typer) -> exp.Expr:
    left, right = comparable([node.this, node.expression], typer)
    return type(node)(this=left, expression=right)


def between_rule(node: exp.Between, typer: Typer) -> exp.Expr:
    value, low, high = comparable([node.this, node.args["low"], node.args["high"]], typer)
    return exp.Between(this=value, low=low, high=high)


def in_rule(node: exp.In, typer: Typer) -> exp.Expr:
    if not node.expressions:
        return in_query(node, typer)
    values = node.expressions
    if is_packed(values[0]) and kind_of(typer.type_of(node.this)) in CONVERTED:  # each number by itself
        values = unpacked(values)
    value, *others = comparable([node.this, *values], typer)
    return exp.In(this=value, expressions=others)


def in_query(node: exp.In, typer: Typer) -> exp.Expr:
    """x IN (SELECT y ...): both have one type, where a text or a float is among them."""
    query = node.args["query"]
    columns = typer.columns_of(query)
    if columns is None or len(columns) != 1:
        return node
    name, found = columns[0]
    kinds = [kind_of(typer.type_of(node.this)), kind_of(found)]
    wanted = common(kinds)
    if wanted is None or not CONVERTED & {*kinds}:
        return node
    side = side_of(query, [name], kinds[1:], [wanted])
    return exp.In(this=converted(node.this, kinds[0], wanted), query=exp.Subquery(this=side))


def if_rule(node: exp.If, typer: Typer) -> exp.Expr:
    """IF(condition, a, b); the WHENs of a CASE wait for all of them."""
    if isinstance(node.parent, exp.Case) or node.args.get("false") is None:
        return node
    true, false = alike([node.args["true"], node.args["false"]], typer)
    return exp.If(this=node.this, true=true, false=false)


def case_rule(node: exp.Case, typer: Typer) -> exp.Expr:
    branches, default = node.args["ifs"], node.args.get("default")
    values = alike([*(branch.args["true"] for branch in branches), *([default] if default is not None else [])], typer)
    value, tests = node.this, [branch.this for branch in branches]
    if value is not None:
        value, *tests = comparable([value, *tests], typer)
    made = [exp.If(this=test, true=true) for test, true in zip(tests, values, strict=False)]
    return exp.Case(this=value, ifs=made, default=values[-1] if default is not None else None)


def set_rule(node: exp.SetOperation, typer: Typer) -> exp.Expr:
    """UNION, INTERSECT, EXCEPT: the columns of both sides have one type."""
    left, right = (typer.columns_of(side) for side in (node.this, node.expression))
    if left is None or right is None or len(left) != len(right):
        return node
    kinds = [[kind_of(kind) for _, kind in columns] for columns in (left, right)]
    wanted = [common(pair) for pair in zip(*kinds, strict=True)]
    for side, columns, own in ((node.this, left, kinds[0]), (node.expression, right, kinds[1])):
        if any(kind != one for kind, one in zip(own, wanted, strict=True) if one is not None and kind != "null"):
            side.replace(side_of(side, [name for name, _ in columns], own, wanted))
    return node


def side_of(side: exp.Expr, names: Sequence[str], own: Sequence[Kind | None], wanted: Sequence[Kind | None]) -> exp.Expr:
    """Return a side of a set operation with its columns converted."""
    inner = [f"c{number}" for number in range(len(names))]
    items = [
        exp.alias_(exp.column(c) if one is None else converted(exp.column(c), kind, one), name, quoted=True)
        for c, name, kind, one in zip(inner, names, own, wanted, strict=True)
    ]
    query = side.this if isinstance(side, exp.Subquery) and not side.alias else side
    alias = exp.TableAlias(this=exp.to_identifier("xpsql_side"), columns=[exp.to_identifier(c) for c in inner])
    return exp.select(*items).from_(exp.Subquery(this=query.copy(), alias=alias))
