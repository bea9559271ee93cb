"""round, bround, ceil and floor: of integers, decimals and reals."""

from __future__ import annotations

from sqlglot import exp

from .arithmetic import scaled
from .calls import SparkCall, call, cast, number
from .decimals import LARGEST, Decimal, decimal_of


def ceil_floor(of: SparkCall) -> exp.Expr:
    kind = of.typer.type_of(of.arguments[0])
    if kind is None or kind.id != "decimal":
        return call("xpsql_whole", call(of.name, *of.arguments))
    decimal = decimal_of(kind)
    whole = decimal.precision - decimal.scale + (decimal.scale > 0)
    return cast(call(of.name, *of.arguments), str(Decimal(min(whole, LARGEST), 0)))


def rounding(of: SparkCall) -> exp.Expr:
    """round and bround, with or without a number of digits."""
    value, digits = of.arguments[0], of.arguments[1] if len(of.arguments) > 1 else number(0)
    kind = of.typer.type_of(value)
    if kind is not None and kind.id == "decimal":
        return round_decimal(of, value, decimal_of(kind), digits)
    if kind is not None and kind.id not in ("double", "float"):
        return cast(call("round", cast(value, "DECIMAL(38,0)"), digits), str(kind))
    if of.name == "bround":
        return call("xpsql_bround_real", value, digits)
    return (
        call("xpsql_round_real", cast(value, "DOUBLE"), digits)
        if kind is None or kind.id == "double"
        else call("round", value, digits)
    )


def round_decimal(of: SparkCall, value: exp.Expr, decimal: Decimal, digits: exp.Expr) -> exp.Expr:
    places = min(int(digits.sql()), decimal.scale)
    whole = max(decimal.precision - decimal.scale + 1, 1 - places)
    result = Decimal(min(whole + max(places, 0), LARGEST), max(places, 0))
    if of.name == "round" or places == decimal.scale:
        return cast(call("round", value, digits), str(result))
    unit = cast(number(10 ** (decimal.scale - places)), "HUGEINT")
    whole_units = call("xpsql_half_even_whole", call("xpsql_unscaled", value), unit)
    return cast(scaled(whole_units, places), str(result))
