"""Arithmetic and functions of numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..engines.duckdb.translation import decimal_product, decimal_sum, wider
from ..errors import StatementError
from .base import BITS, Decimal, DoubtError, Kind, LacksError, Maker, Typed, literal, strict, within
from .conversions import converted, real

HALF = 1e-4
"""A double whose scaled value is so near to a half is rounded by its text."""
WHOLE_FROM = float(1 << 52)
OF_INTEGERS = {"tinyint": 3, "smallint": 5, "integer": 10, "bigint": 20}
Operation = Callable[[Any, Any], Any]


def numbers(left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Return two operands, a text beside a number as a number.

    Raises:
        LacksError: one is no number.
    """
    if "varchar" in (left.kind, right.kind) and left.kind != right.kind:
        try:
            wanted = wider(left.kind, right.kind)
        except StatementError as error:
            raise LacksError("arithmetic of these types") from error
        left, right = converted(left, wanted), converted(right, wanted)
    for one in (left, right):
        if one.kind not in (*BITS, "double", "float") and not isinstance(one.kind, Decimal):
            raise LacksError(f"arithmetic of {str(one.kind).lower()}")
    return left, right


def digits_of(value: Typed) -> Decimal | None:
    """Return the decimal that an operand counts as beside a decimal; None where the result is none."""
    if isinstance(value.kind, Decimal):
        return value.kind
    if value.kind not in OF_INTEGERS:
        return None
    return Decimal(value.digits or OF_INTEGERS[value.kind], 0)


def applied(left: Typed, right: Typed, of_wholes: Operation, of_reals: Operation) -> Typed:
    """Return an operation of two numbers that are no decimals, whose result has the type of the wider."""
    kinds = {left.kind, right.kind}
    if kinds <= BITS.keys():
        kind = max(map(str, kinds), key=BITS.__getitem__)
        check = within(BITS[kind])
        return strict(kind, lambda a, b: check(of_wholes(a, b)), left, right)
    if kinds == {"float"}:
        raise LacksError("arithmetic of floats of 32 bits")
    return strict("double", of_reals, real(left), real(right))


def additive(operation: Operation) -> Maker:
    """Return the maker of + or -."""

    def make(arguments: Sequence[Typed]) -> Typed:
        left, right = numbers(*arguments)
        a, b = digits_of(left), digits_of(right)
        if a is None or b is None or not (isinstance(left.kind, Decimal) or isinstance(right.kind, Decimal)):
            return applied(left, right, operation, operation)
        result = decimal_sum(a, b)
        if result.scale != max(a.scale, b.scale):
            raise LacksError("a decimal of more than 38 digits")
        up, other = 10 ** (result.scale - a.scale), 10 ** (result.scale - b.scale)
        return strict(result, lambda x, y: operation(x * up, y * other), left, right)

    return make


def multiply(arguments: Sequence[Typed]) -> Typed:
    left, right = numbers(*arguments)
    a, b = digits_of(left), digits_of(right)
    if a is None or b is None or not (isinstance(left.kind, Decimal) or isinstance(right.kind, Decimal)):
        return applied(left, right, operator.mul, operator.mul)
    result = decimal_product(a, b)
    if result.scale != a.scale + b.scale:
        raise LacksError("a decimal of more than 38 digits")
    return strict(result, operator.mul, left, right)


def divide(arguments: Sequence[Typed]) -> Typed:
    left, right = numbers(*arguments)
    if (isinstance(left.kind, Decimal) and digits_of(right)) or (isinstance(right.kind, Decimal) and digits_of(left)):
        raise LacksError("the quotient of decimals")
    return strict("double", operator.truediv, real(left), real(right))  # a division by zero is an error of Python


def remainder(a: int, b: int) -> int:
    if b == -1:
        raise DoubtError
    return a - b * truncated(a, b)


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def modulo(arguments: Sequence[Typed]) -> Typed:
    left, right = numbers(*arguments)
    if isinstance(left.kind, Decimal) or isinstance(right.kind, Decimal):
        raise LacksError("the remainder of decimals")
    return applied(left, right, remainder, real_remainder)


def real_remainder(a: float, b: float) -> float:
    if b == 0:  # NaN by 0 is no error of Python
        raise DoubtError
    return math.fmod(a, b)


def positive_modulo(arguments: Sequence[Typed]) -> Typed:
    left, right = (argument.has(*BITS) for argument in numbers(*arguments))

    def positive(a: int, b: int) -> int:
        rest = remainder(a, b)
        return remainder(rest + b, b) if rest < 0 else rest

    return applied(left, right, positive, math.fmod)


def whole_quotient(arguments: Sequence[Typed]) -> Typed:
    left, right = (argument.has(*BITS) for argument in arguments)
    check = within(64)
    return strict("bigint", lambda a, b: check(truncated(a, b)), left, right)


def negative(arguments: Sequence[Typed]) -> Typed:
    (value,) = arguments
    if value.kind in BITS:
        if value.digits and BITS[str(value.kind)] > 32:
            raise LacksError("the negative of so large a number")
        check = within(BITS[str(value.kind)])
        return strict(value.kind, lambda x: check(-x), value)._replace(digits=value.digits)
    if isinstance(value.kind, Decimal):
        return strict(value.kind, operator.neg, value)
    return strict(value.has("double").kind, operator.neg, value)


def absolute(arguments: Sequence[Typed]) -> Typed:
    (value,) = arguments
    if value.kind in BITS:
        check = within(BITS[str(value.kind)])
        return strict(value.kind, lambda x: check(abs(x)), value)
    return strict(value.has("double").kind, abs, value)


def of_real(function: Callable[[float], float | None], kind: Kind = "double") -> Maker:
    """Return the maker of a function of a double."""

    def make(arguments: Sequence[Typed]) -> Typed:
        (value,) = arguments
        return strict(kind, function, real(value.has("double", "float", *BITS)))

    return make


def where(function: Callable[[float], float], above: float) -> Maker:
    """Return the maker of a function that is NULL unless its argument is above a number; NaN is above all."""
    return of_real(lambda x: None if x <= above else function(x))


def log1p(x: float) -> float:
    near = 1 + x
    return x if near == 1 else math.log(near) * (x / (near - 1))


def root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def whole(towards: Callable[[float], float]) -> Maker:
    """Return the maker of floor or ceil."""
    check = within(64)
    return of_real(lambda x: 0 if x != x else check(int(towards(x))), "bigint")


def only_real(maker: Maker) -> Maker:
    """Return a maker that takes doubles alone: of whole numbers the engine computes it otherwise."""
    return lambda arguments: maker([argument.has("double") for argument in arguments])


def rounded(arguments: Sequence[Typed]) -> Typed:
    value, places = arguments if len(arguments) == 2 else (arguments[0], literal("integer", 0))
    if not 0 <= (count := places.has("integer").value) <= 15:
        raise LacksError("round to so many digits")
    unit = float(10**count)

    def round_real(x: float) -> float:
        scaled = x * unit
        if not math.isfinite(scaled):
            raise DoubtError
        if abs(x) < 1e15 and abs(abs(scaled - math.trunc(scaled)) - 0.5) < HALF:
            raise DoubtError
        return scaled / unit if abs(scaled) >= WHOLE_FROM else math.copysign(float(round(scaled)), x) / unit

    return strict("double", round_real, value.has("double"))


FUNCTIONS: dict[str, Maker] = {
    "mod": modulo,
    "pmod": positive_modulo,
    "abs": absolute,
    "negative": negative,
    "ln": where(math.log, 0),
    "log": where(math.log, 0),
    "log10": where(math.log10, 0),
    "log2": where(math.log2, 0),
    "log1p": where(log1p, -1),
    "sqrt": of_real(root),
    "exp": of_real(math.exp),
    "floor": only_real(whole(math.floor)),
    "ceil": only_real(whole(math.ceil)),
    "round": rounded,
}
ADD, SUBTRACT = additive(operator.add), additive(operator.sub)
