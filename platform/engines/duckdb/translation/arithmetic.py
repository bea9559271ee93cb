"""+, -, *, /, %, div and their functions: the types of Spark, exact decimals, an error for division by zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from ....errors import StatementError
from .calls import Maker, SparkCall, call, cast, number
from .coercion import REALS, Kind, converted, is_number, kind_of, wider
from .decimals import LARGEST, OF_INTEGERS, Decimal, added, divided, literal_digits, multiplied, remaining
from .typer import Typer

INTERVAL_DAYS = frozenset(("DAY", "WEEK", "MONTH", "YEAR", "QUARTER", "DAYS", "WEEKS", "MONTHS", "YEARS", "QUARTERS"))


class DuckDBOperator(NamedTuple):
    """What an operator is in DuckDB.

    Attributes:
        result: the type of a result of decimals.
        made: DuckDB's node, or the name of a macro.
    """

    result: Callable[[Decimal, Decimal], Decimal]
    made: type[exp.Binary] | str


ADD, SUBTRACT, MULTIPLY = DuckDBOperator(added, exp.Add), DuckDBOperator(added, exp.Sub), DuckDBOperator(multiplied, exp.Mul)
DIVIDE, REMAINDER = DuckDBOperator(divided, "xpsql_divide"), DuckDBOperator(remaining, "xpsql_remainder")
OPERATORS = {exp.Add: ADD, exp.Sub: SUBTRACT, exp.Mul: MULTIPLY, exp.Div: DIVIDE, exp.Mod: REMAINDER}


def arithmetic_rule(node: exp.Binary, typer: Typer) -> exp.Expr:
    left, right = node.this, node.expression
    if isinstance(left, exp.Interval) or isinstance(right, exp.Interval):
        return interval_arithmetic(node, typer)
    if isinstance(node, exp.Sub) and all(kind_of(typer.type_of(side)) == "date" for side in (left, right)):
        return call("to_days", call("spark_datediff", left, right))
    return arithmetic(OPERATORS[type(node)], left, right, typer)


def arithmetic(operator: DuckDBOperator, left: exp.Expr, right: exp.Expr, typer: Typer) -> exp.Expr:
    left, right, kinds = numbers(left, right, typer)
    decimals = [operand(kind, value) for kind, value in zip(kinds, (left, right), strict=True)]
    if any(isinstance(kind, Decimal) for kind in kinds) and all(decimals):
        return of_decimals(operator, left, right, *filter(None, decimals))
    left, right = typed_literal(left), typed_literal(right)
    if "float" in kinds and any(isinstance(kind, Decimal) or kind in OF_INTEGERS for kind in kinds):
        left, right = cast(left, "DOUBLE"), cast(right, "DOUBLE")
    if operator.result is divided:
        left, right = cast(left, "DOUBLE"), cast(right, "DOUBLE")
    return applied(operator, left, right)


def numbers(left: exp.Expr, right: exp.Expr, typer: Typer) -> tuple[exp.Expr, exp.Expr, list[Kind | None]]:
    """Return two operands and their types, a text beside a number as a number.

    Raises:
        StatementError: both are texts.
    """
    a, b = kinds = [kind_of(typer.type_of(value)) for value in (left, right)]
    if a is None or b is None or "varchar" not in kinds or not all(kind == "varchar" or is_number(kind) for kind in (a, b)):
        return left, right, kinds
    if a == b:
        raise StatementError("Arithmetic takes numbers, got two texts. CAST them, or join texts by ||.")
    wanted = wider(a, b)
    return converted(left, a, wanted), converted(right, b, wanted), [wanted, wanted]


def operand(kind: Kind | None, value: exp.Expr) -> Decimal | None:
    """Return the decimal that an operand counts as beside a decimal; None for a type that makes the result no decimal."""
    if digits := literal_digits(value):
        return Decimal(digits, 0)
    return kind if isinstance(kind, Decimal) else Decimal(OF_INTEGERS[kind], 0) if kind in OF_INTEGERS else None


def typed_literal(node: exp.Expr) -> exp.Expr:
    """Return an integer literal as INT or BIGINT: DuckDB's would take the other operand's type."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return cast(node, "INTEGER" if int(node.name) < 1 << 31 else "BIGINT")
    return node


def applied(operator: DuckDBOperator, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    if isinstance(operator.made, str):
        return call(operator.made, left, right)
    return operator.made(this=left, expression=right)


def of_decimals(operator: DuckDBOperator, left: exp.Expr, right: exp.Expr, a: Decimal, b: Decimal) -> exp.Expr:
    result = operator.result(a, b)
    if operator.result is divided:
        return quotient(operator, cast(left, str(a)), cast(right, str(b)), result.scale - a.scale + b.scale, result)
    left = cast(left, str(Decimal(LARGEST, a.scale) if operator.result is multiplied else a))
    return cast(exp.Paren(this=applied(operator, left, cast(right, str(b)))), str(result))


def quotient(operator: DuckDBOperator, left: exp.Expr, right: exp.Expr, shift: int, result: Decimal) -> exp.Expr:
    """Divide decimals as integers, to a digit more than the result has, which rounds it: as doubles they lose digits."""
    shifted = exp.Mul(this=call("xpsql_unscaled", left), expression=cast(number(10 ** (shift + 1)), "HUGEINT"))
    digits = call(f"{operator.made}_whole", exp.Paren(this=shifted), call("xpsql_unscaled", right))
    return cast(exp.Paren(this=scaled(digits, result.scale + 1)), str(result))


def scaled(digits: exp.Expr, scale: int) -> exp.Expr:
    """Return an integer as a decimal whose last `scale` digits are its fraction; with zeros behind it where that is below 0."""
    if scale <= 0:
        return exp.Mul(this=digits, expression=cast(number(10**-scale), "HUGEINT"))
    unit = cast(exp.Literal.string(f"0.{'1':0>{scale}}"), str(Decimal(scale, scale)))
    return exp.Mul(this=cast(digits, str(Decimal(LARGEST, 0))), expression=unit)


def int_div_rule(node: exp.IntDiv, typer: Typer) -> exp.Expr:
    left, right, kinds = numbers(node.this, node.expression, typer)
    if REALS & {*kinds}:
        raise StatementError("div takes integers and decimals, got a DOUBLE or FLOAT. Write floor(a / b).")
    scales = [kind.scale for kind in kinds if isinstance(kind, Decimal)]
    if scales:
        same = str(Decimal(LARGEST, max(scales)))
        left, right = (call("xpsql_unscaled", cast(value, same)) for value in (left, right))
    return call("xpsql_div", left, right)


def interval_arithmetic(node: exp.Binary, typer: Typer) -> exp.Expr:
    """A time plus an interval; a date plus whole days stays a date."""
    moment, interval = (
        (node.this, node.expression) if isinstance(node.expression, exp.Interval) else (node.expression, node.this)
    )
    kind = typer.type_of(moment)
    made = type(node)(this=moment, expression=interval)
    days = str(interval.args.get("unit")).upper() in INTERVAL_DAYS
    return cast(exp.Paren(this=made), "DATE") if kind is not None and kind.id == "date" and days else made


def computed(operator: DuckDBOperator) -> Maker:
    """Return the maker of a function that is an operator."""
    return lambda of: arithmetic(operator, *pair(of), of.typer)


def attempted(operator: DuckDBOperator) -> Maker:
    """Return the maker of arithmetic that gives NULL where it overflows."""
    return lambda of: call("try", arithmetic(operator, *pair(of), of.typer))


def pair(of: SparkCall) -> tuple[exp.Expr, exp.Expr]:
    left, right = of.arguments
    return left, right


ARITHMETIC: dict[str, Maker] = {
    "mod": computed(REMAINDER),
    "pmod": computed(DuckDBOperator(remaining, "xpsql_pmod")),
    "try_add": attempted(ADD),
    "try_subtract": attempted(SUBTRACT),
    "try_multiply": attempted(MULTIPLY),
    "try_divide": computed(DuckDBOperator(divided, "xpsql_try_divide")),
}
