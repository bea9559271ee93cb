"""What a row program is made of: typed parts, each a function of the row's columns, and what it leaves to an engine.

Values are as JSON has them: numbers, texts and truth values. A date is a `date`, an instant a `datetime` in UTC without a zone,
a DECIMAL its digits as a whole number, an array a list, NULL is None. A program never guesses: where an engine might answer
otherwise, or with an error, it raises a DoubtError, and the engine is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..engines.duckdb.translation import INSTANT, Decimal, Kind
from .refusals import DoubtError, LacksError

Compute = Callable[[Sequence[Any]], Any]
BITS = {"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64}
TEXTS = "varchar[]"
EXACT = 1 << 53
"""Whole numbers below it are doubles."""
POWERS = 22
"""Powers of ten up to it are doubles."""


class Typed(NamedTuple):
    """A part of an expression.

    Attributes:
        kind: its type, in the words of `coercion`; TEXTS for an array of texts.
        compute: its value in a row.
        constant: it is the same in every row.
        digits: of a whole number that is written as such; 0 of others.
    """

    kind: Kind
    compute: Compute
    constant: bool = False
    digits: int = 0

    @property
    def value(self) -> Any:
        """The value of a constant.

        Raises:
            LacksError: it is none.
        """
        if not self.constant:
            raise LacksError("a value that must be written as such")
        return self.compute(())

    def has(self, *kinds: Kind) -> Typed:
        """Return this part, whose type must be one of some.

        Raises:
            LacksError: it is another.
        """
        if self.kind not in kinds:
            raise LacksError(f"a value of type {str(self.kind).lower()} there")
        return self


Maker = Callable[[Sequence[Typed]], Typed]
"""Makes a call from its arguments; raises LacksError, or ValueError where their number is another."""


def literal(kind: Kind, value: Any, digits: int = 0) -> Typed:
    """Return a constant."""
    return Typed(kind, lambda row: value, True, digits)


def made(kind: Kind, compute: Compute, arguments: Sequence[Typed]) -> Typed:
    """Return a part that is computed of others: once, where all are constants.

    Raises:
        LacksError: it is computed once, and a doubt.
    """
    if not all(argument.constant for argument in arguments):
        return Typed(kind, compute)
    try:
        return literal(kind, compute(()))
    except (DoubtError, ArithmeticError, ValueError) as error:
        raise LacksError("a constant that the engine must compute") from error


def strict(kind: Kind, function: Callable[..., Any], *arguments: Typed) -> Typed:
    """Return a function of values; NULL where one of them is."""
    computes = [argument.compute for argument in arguments]
    if len(computes) == 1:
        (only,) = computes

        def of_one(row: Sequence[Any]) -> Any:
            value = only(row)
            return None if value is None else function(value)

        return made(kind, of_one, arguments)
    if len(computes) == 2:
        left, right = computes

        def of_two(row: Sequence[Any]) -> Any:
            a = left(row)
            if a is None:
                return None
            b = right(row)
            return None if b is None else function(a, b)

        return made(kind, of_two, arguments)

    def of_all(row: Sequence[Any]) -> Any:
        values = [compute(row) for compute in computes]
        return None if None in values else function(*values)

    return made(kind, of_all, arguments)


def within(bits: int) -> Callable[[int], int]:
    """Return a function that doubts whole numbers of more bits."""
    most = 1 << bits - 1

    def check(value: int) -> int:
        if not -most <= value < most:
            raise DoubtError
        return value

    return check


__all__ = ["BITS", "EXACT", "INSTANT", "POWERS", "TEXTS", "Compute", "Decimal", "DoubtError", "Kind", "LacksError", "Maker",
           "Typed", "literal", "made", "strict", "within"]  # fmt: skip
