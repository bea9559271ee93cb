"""Comparisons, truth values, and choices by them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .base import TEXTS, LacksError, Maker, Typed, literal, made
from .conversions import alike

Test = Callable[[Any, Any], bool]


# Doubles are ordered as in SQL: NaN equals itself and is above all.
def same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def below(a: Any, b: Any) -> bool:
    return bool(a < b or (b != b and a == a))


def below_or_same(a: Any, b: Any) -> bool:
    return bool(a <= b or b != b)


TESTS: dict[str, tuple[Test, Test]] = {
    "eq": (operator.eq, same),
    "neq": (operator.ne, lambda a, b: not same(a, b)),
    "lt": (operator.lt, below),
    "lte": (operator.le, below_or_same),
    "gt": (operator.gt, lambda a, b: below(b, a)),
    "gte": (operator.ge, lambda a, b: below_or_same(b, a)),
}
"""By the name of a comparison: of values in general, and of doubles."""


def comparable(values: Sequence[Typed]) -> list[Typed]:
    """Return values of one type that are compared."""
    found = alike(values)
    if found[0].kind in (TEXTS, "null"):
        raise LacksError("a comparison of these types")
    return found


def test_of(name: str, values: Sequence[Typed]) -> Test:
    return TESTS[name][values[0].kind in ("double", "float")]


def compared(name: str) -> Maker:
    """Return the maker of a comparison."""

    def make(arguments: Sequence[Typed]) -> Typed:
        left, right = values = comparable(arguments)
        test, a, b = test_of(name, values), left.compute, right.compute

        def compute(row: Sequence[Any]) -> bool | None:
            x, y = a(row), b(row)
            return None if x is None or y is None else test(x, y)

        return made("boolean", compute, arguments)

    return make


def same_or_null(arguments: Sequence[Typed]) -> Typed:
    left, right = values = comparable(arguments)
    test, a, b = test_of("eq", values), left.compute, right.compute

    def compute(row: Sequence[Any]) -> bool:
        x, y = a(row), b(row)
        return x is y if x is None or y is None else test(x, y)

    return made("boolean", compute, arguments)


def between(arguments: Sequence[Typed]) -> Typed:
    value, low, high = comparable(arguments)
    return both([compared("gte")([value, low]), compared("lte")([value, high])])


def among(arguments: Sequence[Typed]) -> Typed:
    value, *others = comparable(arguments)
    test, of, computes = test_of("eq", [value]), value.compute, [other.compute for other in others]

    def compute(row: Sequence[Any]) -> bool | None:
        x = of(row)
        if x is None:
            return None
        found = [other(row) for other in computes]
        if any(y is not None and test(x, y) for y in found):
            return True
        return None if None in found else False

    return made("boolean", compute, arguments)


def both(arguments: Sequence[Typed]) -> Typed:
    a, b = (argument.has("boolean", "null").compute for argument in arguments)

    def compute(row: Sequence[Any]) -> bool | None:
        x = a(row)
        if x is False:
            return False
        y = b(row)
        return False if y is False else None if x is None or y is None else True

    return made("boolean", compute, arguments)


def either(arguments: Sequence[Typed]) -> Typed:
    a, b = (argument.has("boolean", "null").compute for argument in arguments)

    def compute(row: Sequence[Any]) -> bool | None:
        x = a(row)
        if x is True:
            return True
        y = b(row)
        return True if y is True else None if x is None or y is None else False

    return made("boolean", compute, arguments)


def negated(arguments: Sequence[Typed]) -> Typed:
    (value,) = arguments
    of = value.has("boolean").compute

    def compute(row: Sequence[Any]) -> bool | None:
        x = of(row)
        return None if x is None else not x

    return made("boolean", compute, arguments)


def is_null(arguments: Sequence[Typed]) -> Typed:
    (value,) = arguments
    of = value.compute
    return made("boolean", lambda row: of(row) is None, arguments)


def is_not_null(arguments: Sequence[Typed]) -> Typed:
    return negated([is_null(arguments)])


def chosen(tests: Sequence[Typed], values: Sequence[Typed]) -> Typed:
    """Return CASE WHEN test THEN value ... ELSE value END; there is a value more than tests."""
    same_kind = alike(values)
    pairs = [(test.has("boolean", "null").compute, value.compute) for test, value in zip(tests, same_kind[:-1], strict=True)]
    default = same_kind[-1].compute

    def compute(row: Sequence[Any]) -> Any:
        for test, value in pairs:
            if test(row):
                return value(row)
        return default(row)

    return made(same_kind[0].kind, compute, [*tests, *values])


def case(value: Typed | None, whens: Sequence[tuple[Typed, Typed]], default: Typed | None) -> Typed:
    """Return a CASE, with a value that its WHENs are compared with or without."""
    tests = [when for when, _ in whens]
    if value is not None:
        value, *tests = comparable([value, *tests])
        tests = [compared("eq")([value, test]) for test in tests]
    return chosen(tests, [*(then for _, then in whens), default or literal("null", None)])


def coalesce(arguments: Sequence[Typed]) -> Typed:
    values = alike(arguments)
    computes = [value.compute for value in values]

    def compute(row: Sequence[Any]) -> Any:
        for one in computes:
            if (value := one(row)) is not None:
                return value
        return None

    return made(values[0].kind, compute, arguments)


def nvl2(arguments: Sequence[Typed]) -> Typed:
    value, there, absent = arguments
    return chosen([is_not_null([value])], [there, absent])


def nullif(arguments: Sequence[Typed]) -> Typed:
    value, absent = arguments
    return chosen([compared("eq")([value, absent])], [literal("null", None), value])


def extreme(name: str) -> Maker:
    """Return the maker of least or greatest, which pass NULLs over."""

    def make(arguments: Sequence[Typed]) -> Typed:
        if len(arguments) < 2:
            raise LacksError("one argument there")
        values = comparable(arguments)
        further, computes = test_of(name, values), [value.compute for value in values]

        def compute(row: Sequence[Any]) -> Any:
            found = None
            for one in computes:
                value = one(row)
                if value is not None and (found is None or further(value, found)):
                    found = value
            return found

        return made(values[0].kind, compute, arguments)

    return make


def is_nan(arguments: Sequence[Typed]) -> Typed:
    (value,) = arguments
    of = value.has("double", "float").compute

    def compute(row: Sequence[Any]) -> bool:
        x = of(row)
        return x is not None and x != x

    return made("boolean", compute, arguments)


LEAST, GREATEST = extreme("lt"), extreme("gt")
FUNCTIONS: dict[str, Maker] = {
    "coalesce": coalesce,
    "nvl2": nvl2,
    "nullif": nullif,
    "least": LEAST,
    "greatest": GREATEST,
    "isnull": is_null,
    "isnotnull": is_not_null,
    "isnan": is_nan,
    "equal_null": same_or_null,
}
