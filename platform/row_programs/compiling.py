"""Spark SQL's tree of an expression as a function of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from ..engines.duckdb.translation import RENAMED
from ..engines.spark_sql.dialect import SparkSQL, parse
from ..engines.spark_sql.lists import is_packed, unpacked
from ..engines.spark_sql.words import TYPE_NAMES
from ..spark_types import TIMESTAMP
from . import conditions, features, numbers, texts, times
from .base import INSTANT, TEXTS, Compute, Decimal, DoubtError, Kind, LacksError, Maker, Typed, literal
from .conversions import KINDS, cast

FUNCTIONS: dict[str, Maker] = {
    **numbers.FUNCTIONS, **conditions.FUNCTIONS, **texts.FUNCTIONS, **times.FUNCTIONS, **features.FUNCTIONS
}  # fmt: skip
OPERATORS: dict[type[exp.Expr], Maker] = {
    exp.Add: numbers.ADD,
    exp.Sub: numbers.SUBTRACT,
    exp.Mul: numbers.multiply,
    exp.Div: numbers.divide,
    exp.Mod: numbers.modulo,
    exp.IntDiv: numbers.whole_quotient,
    exp.Neg: numbers.negative,
    exp.EQ: conditions.compared("eq"),
    exp.NEQ: conditions.compared("neq"),
    exp.LT: conditions.compared("lt"),
    exp.LTE: conditions.compared("lte"),
    exp.GT: conditions.compared("gt"),
    exp.GTE: conditions.compared("gte"),
    exp.NullSafeEQ: conditions.same_or_null,
    exp.And: conditions.both,
    exp.Or: conditions.either,
    exp.Not: conditions.negated,
    exp.DPipe: texts.concat,
}
"""Of one operand or two, which stand under this and expression."""
COLUMNS: dict[pa.DataType, Kind] = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "varchar", pa.date32(): "date", TIMESTAMP: INSTANT,
    pa.list_(pa.string()): TEXTS,
}  # fmt: skip
SHOWN = 60


class RowProgram(NamedTuple):
    """An expression as a function.

    Attributes:
        kind: the type of its values.
        compute: of the values of the columns, in their order; raises DoubtError where an engine must be asked.
    """

    kind: Kind
    compute: Compute


def compiled(sql: str, columns: Mapping[str, pa.DataType]) -> RowProgram:
    """Return an expression of Spark SQL as a function.

    Args:
        columns: that it may read, in the order of their values.

    Raises:
        LacksError: a part of it is none that programs compute; its text says which.
    """
    item = parse(f"SELECT {sql} AS x").expressions[0].this
    found = Compiler(columns).typed(item)

    def compute(row: Sequence[Any]) -> Any:
        try:
            return found.compute(row)
        except (ArithmeticError, ValueError) as error:  # which an engine says in its own words, or has a value for
            raise DoubtError from error

    return RowProgram(found.kind, compute)


class Compiler:
    """Makes functions of trees; see `compiled`."""

    def __init__(self, columns: Mapping[str, pa.DataType]) -> None:
        self._places = {name.lower(): place for place, name in enumerate(columns)}
        self._types = list(columns.values())

    def typed(self, node: exp.Expr) -> Typed:
        """Return a node as a typed part."""
        rule = next((RULES[kind] for kind in type(node).__mro__ if kind in RULES), None)
        if rule is not None:
            return rule(self, node)
        operator = OPERATORS.get(type(node))
        if operator is None:
            raise LacksError(shown(node))
        return self.called(operator, node, [node.this, *([node.expression] if isinstance(node, exp.Binary) else [])])

    def called(self, maker: Maker, node: exp.Expr, arguments: Sequence[exp.Expr]) -> Typed:
        typed = [self.typed(argument) for argument in arguments]
        try:
            return maker(typed)
        except LacksError as error:
            raise LacksError(f"{shown(node)}: {error}" if ":" not in str(error) else str(error)) from error
        except ValueError as error:
            raise LacksError(shown(node)) from error

    def column(self, node: exp.Column) -> Typed:
        place = self._places.get(node.name.lower()) if len(node.parts) == 1 else None
        if place is None:
            raise LacksError(shown(node))
        kind = COLUMNS.get(self._types[place])
        if kind is None:
            raise LacksError(f"the column {node.name} of type {self._types[place]}")
        return Typed(kind, lambda row: row[place])

    def call(self, node: exp.Anonymous) -> Typed:
        written = node.name.lower()
        name = RENAMED.get(written, written)
        arguments = list(node.expressions)
        if name in FUNCTIONS:
            return self.called(FUNCTIONS[name], node, arguments)
        if name in TYPE_NAMES and len(arguments) == 1:
            return self.as_type(node, arguments[0], exp.DataType.build(name, dialect="spark"))
        if name == "extract" and len(arguments) == 2:
            return times.extract(str(self.typed(arguments[0]).value), self.typed(arguments[1]))
        raise LacksError(shown(node))

    def as_type(self, node: exp.Expr, value: exp.Expr, to: exp.DataType) -> Typed:
        kind = KINDS.get(to.sql("duckdb"))
        if kind is None:
            raise LacksError(shown(node))
        if isinstance(value, exp.Literal) and not value.is_string and kind == "double":
            return literal(kind, float(value.name))
        digits = self.typed(value)
        return self.called(lambda typed: cast(typed[0], kind), node, [value])._replace(digits=digits.digits)

    def literal(self, node: exp.Literal) -> Typed:
        if node.is_string:
            return literal("varchar", node.name)
        whole, point, fraction = node.name.partition(".")
        if "e" in node.name.lower():
            return literal("double", float(node.name))
        if point:
            digits = len((whole + fraction).lstrip("0"))
            return literal(Decimal(max(digits, len(fraction), 1), len(fraction)), int(whole + fraction))
        if not whole.isdigit() or int(whole) >= 1 << 63:
            raise LacksError(shown(node))
        return literal("integer" if int(whole) < 1 << 31 else "bigint", int(whole), len(whole.lstrip("0")) or 1)

    def choice(self, node: exp.Case) -> Typed:
        default = node.args.get("default")
        whens = [(self.typed(branch.this), self.typed(branch.args["true"])) for branch in node.args["ifs"]]
        value = None if node.this is None else self.typed(node.this)
        return conditions.case(value, whens, None if default is None else self.typed(default))

    def one_of_two(self, node: exp.If) -> Typed:
        otherwise = node.args.get("false")
        when = (self.typed(node.this), self.typed(node.args["true"]))
        return conditions.case(None, [when], None if otherwise is None else self.typed(otherwise))

    def membership(self, node: exp.In) -> Typed:
        if not node.expressions:
            raise LacksError(shown(node))
        values = unpacked(node.expressions) if is_packed(node.expressions[0]) else node.expressions
        return self.called(conditions.among, node, [node.this, *values])

    def is_something(self, node: exp.Is) -> Typed:
        if isinstance(node.expression, exp.Null):
            return conditions.is_null([self.typed(node.this)])
        raise LacksError(shown(node))

    def trim(self, node: exp.Trim) -> Typed:
        if node.expression is not None and not (isinstance(node.expression, exp.Literal) and node.expression.name == " "):
            raise LacksError(shown(node))
        names = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
        return self.called(FUNCTIONS[names[str(node.args.get("position") or "BOTH").upper()]], node, [node.this])

    def substring(self, node: exp.Substring) -> Typed:
        parts = [part for part in (node.args.get("start"), node.args.get("length")) if part is not None]
        return self.called(texts.substring, node, [node.this, *parts])


RULES: dict[type[exp.Expr], Callable[[Compiler, Any], Typed]] = {
    exp.Column: Compiler.column,
    exp.Anonymous: Compiler.call,
    exp.Paren: lambda compiler, node: compiler.typed(node.this),
    exp.Cast: lambda compiler, node: compiler.as_type(node, node.this, node.to),
    exp.Literal: Compiler.literal,
    exp.Boolean: lambda compiler, node: literal("boolean", bool(node.this)),
    exp.Null: lambda compiler, node: literal("null", None),
    exp.Case: Compiler.choice,
    exp.If: Compiler.one_of_two,
    exp.In: Compiler.membership,
    exp.Between: lambda compiler, node: compiler.called(
        conditions.between, node, [node.this, node.args["low"], node.args["high"]]
    ),
    exp.Is: Compiler.is_something,
    exp.Trim: Compiler.trim,
    exp.Substring: Compiler.substring,
    exp.Extract: lambda compiler, node: times.extract(node.this.name, compiler.typed(node.expression)),
}


def shown(node: exp.Expr) -> str:
    """Return a node as it is written, or how it begins."""
    text = node.sql(SparkSQL)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
