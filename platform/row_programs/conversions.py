"""Types that become others: where an expression mixes them, and by CAST."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

from ..engines.duckdb.translation import common
from ..errors import StatementError
from ..udf.json_values import double_text
from .base import BITS, EXACT, INSTANT, POWERS, TEXTS, Decimal, DoubtError, Kind, LacksError, Typed, strict, within

WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]")
TRUE, FALSE = frozenset(("t", "true", "y", "yes", "1")), frozenset(("f", "false", "n", "no", "0"))
KINDS: dict[str, Kind] = {
    "TEXT": "varchar", "VARCHAR": "varchar", "STRING": "varchar", "TINYINT": "tinyint", "SMALLINT": "smallint",
    "INT": "integer", "INTEGER": "integer", "BIGINT": "bigint", "DOUBLE": "double", "BOOLEAN": "boolean", "DATE": "date",
    "TIMESTAMPTZ": INSTANT,
    "TEXT[]": TEXTS,
}  # fmt: skip
EPOCH, MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
Function = Callable[[Any], Any]


def alike(values: Sequence[Typed]) -> list[Typed]:
    """Return values converted to one type, as those of CASE and coalesce are.

    Raises:
        LacksError: they have none in common that a program knows.
    """
    if len(set(kinds := [value.kind for value in values])) == 1:
        return list(values)
    try:
        wanted = common([None if kind == TEXTS else kind for kind in kinds])
    except StatementError as error:
        raise LacksError("values of types that do not go together") from error
    if wanted is None:
        raise LacksError("arrays beside other values")
    return [converted(value, wanted) for value in values]


def converted(value: Typed, wanted: Kind) -> Typed:
    """Return a value converted to another type where an expression mixes them."""
    if value.kind == wanted:
        return value
    if value.kind == "null":
        return value._replace(kind=wanted)
    return cast(value, wanted)


def cast(value: Typed, wanted: Kind) -> Typed:
    """Return CAST(value AS wanted).

    Raises:
        LacksError: no program has this cast.
    """
    if value.kind == wanted:
        return value
    if value.kind == "null":
        return value._replace(kind=wanted)
    function = function_of(value.kind, wanted)
    if function is None:
        raise LacksError(f"CAST from {str(value.kind).lower()} to {str(wanted).lower()}")
    return strict(wanted, function, value)


def function_of(source: Kind, wanted: Kind) -> Function | None:
    if isinstance(source, Decimal):
        return of_decimal(source, wanted)
    if isinstance(wanted, Decimal):
        return rescaled(0, wanted) if source in BITS else None
    if wanted in BITS:
        return to_whole(source, BITS[wanted])
    return CASTS.get((source if source not in BITS else "whole", wanted))


def of_decimal(source: Decimal, wanted: Kind) -> Function | None:
    if isinstance(wanted, Decimal):
        return rescaled(source.scale, wanted)
    unit = 10**source.scale
    if wanted in BITS:
        check = within(BITS[wanted])
        return lambda digits: check(-(-digits // unit) if digits < 0 else digits // unit)
    if wanted != "double" or source.scale > POWERS:
        return None

    def real(digits: int) -> float:
        if not -EXACT < digits < EXACT:
            raise DoubtError
        return float(digits / unit)

    return real


def rescaled(scale: int, wanted: Decimal) -> Function | None:
    if wanted.scale < scale:
        return None
    factor, most = 10 ** (wanted.scale - scale), 10**wanted.precision

    def digits_of(digits: int) -> int:
        if not -most < digits * factor < most:
            raise DoubtError
        return int(digits * factor)

    return digits_of


def to_whole(source: Kind, bits: int) -> Function | None:
    check = within(bits)
    if source in BITS:
        return check
    if source == "boolean":
        return int
    if source == "double":
        return lambda value: check(int(value))  # NaN and infinities are errors of Python
    if source == "varchar":
        return lambda text: check(int(matching(WHOLE, text)))
    if source == INSTANT:
        return lambda moment: check(math.floor(micros(moment) / 1e6))  # the engine's seconds are a double
    return None


def micros(moment: datetime) -> int:
    """Return the microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


def matching(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None or not text.isascii():
        raise DoubtError
    return text


def truth(text: str) -> bool:
    word = text.strip(" ").lower() if text.isascii() else ""
    if word not in TRUE | FALSE:
        raise DoubtError
    return word in TRUE


def day_of(text: str) -> date:
    return date.fromisoformat(matching(DAY, text))


def moment_of(text: str) -> datetime:
    return datetime.fromisoformat(matching(MOMENT, text))


def day_text(day: date) -> str:
    return day.isoformat()


def moment_text(moment: datetime) -> str:
    return moment.isoformat(" ").rstrip("0") if moment.microsecond else moment.isoformat(" ")


CASTS: dict[tuple[Kind, Kind], Function] = {
    ("whole", "varchar"): str,
    ("boolean", "varchar"): lambda value: "true" if value else "false",
    ("double", "varchar"): double_text,
    ("date", "varchar"): day_text,
    (INSTANT, "varchar"): moment_text,
    ("whole", "double"): float,
    ("boolean", "double"): float,
    ("float", "double"): float,
    ("varchar", "double"): lambda text: float(matching(REAL, text)),
    ("whole", "boolean"): bool,
    ("varchar", "boolean"): truth,
    (INSTANT, "date"): datetime.date,
    ("varchar", "date"): day_of,
    ("date", INSTANT): lambda day: datetime.combine(day, time()),
    ("varchar", INSTANT): moment_of,
}


def text(value: Typed) -> Typed:
    """Return CAST(value AS STRING)."""
    return cast(value, "varchar")


def real(value: Typed) -> Typed:
    """Return CAST(value AS DOUBLE)."""
    return cast(value, "double")
