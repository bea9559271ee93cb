"""Values of requests in the types of a model's columns: converted as by CAST of Spark SQL, where that is lossless.

So 1, 1.0 and "1" are one value of a BIGINT column; in a STRING column they are '1', '1.0' and '1'.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ..spark_types import type_words
from ..udf.json_values import double_text
from ..udf.text_times import micros_of

Cast = Callable[[Any], Any]

INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")
NUMBER = re.compile(r"\s*+[+-]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,6})?|NaN|Infinity)\s*")
DATE = re.compile(r"\s*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})\s*")
USUAL_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}$", re.ASCII)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
BRIEF = 60


class MismatchError(Exception):
    """A value that does not fit its column's type.

    Attributes:
        expected: what was expected, in words.
        got: the value, in words.
    """

    def __init__(self, expected: str, value: object, inside: str = "") -> None:
        self.expected = expected
        shown = repr(value) if len(repr(value)) <= BRIEF else f"{repr(value)[:BRIEF]}..."
        self.got = f"{shown}{inside}"
        super().__init__(f"expected {expected}, got {self.got}")


def cast_to(kind: pa.DataType) -> Cast:
    """Return a function that casts a value of JSON or of Arrow, not None, to what pa.array takes for a type.

    The function raises MismatchError.
    """
    t = pa.types
    if t.is_string(kind):
        return text
    if t.is_boolean(kind):
        return boolean
    if t.is_integer(kind):
        return integer_of(kind)
    if t.is_floating(kind):
        return number
    if t.is_decimal(kind):
        return decimal_of(kind)
    if t.is_date(kind):
        return date
    if t.is_timestamp(kind):
        return timestamp
    if t.is_map(kind):
        return map_of(kind)
    if t.is_list(kind):
        return list_of(kind)
    return nothing


def text(value: Any) -> str:
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise MismatchError("text that is valid Unicode", value)
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) < 1 << 127:
        return str(value)
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, decimal.Decimal | datetime.date) and not isinstance(value, datetime.datetime):
        return str(value)
    raise MismatchError("a string", value)


def boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and not (isinstance(value, float) and math.isnan(value)):
        return value != 0
    if isinstance(value, str) and (word := value.strip().lower()) in (*TRUE, *FALSE):
        return word in TRUE
    raise MismatchError("true or false", value)


def integer_of(kind: pa.DataType) -> Cast:
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    expected = f"a whole number from {low} to {high}"

    def integer(value: Any) -> int:
        found = int(value) if is_whole(value) else None
        if found is None or not low <= found <= high:
            raise MismatchError(expected, value)
        return found

    return integer


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number, written in any way."""
    if isinstance(value, float):
        return value.is_integer()
    if isinstance(value, decimal.Decimal):
        return value.is_finite() and value == value.to_integral_value()
    return isinstance(value, int) or (isinstance(value, str) and INTEGER.fullmatch(value) is not None)


def number(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and abs(value) < 1 << 127:
        return float(value)
    if isinstance(value, decimal.Decimal) or (isinstance(value, str) and NUMBER.fullmatch(value)):
        return float(value)
    raise MismatchError("a number", value)


def decimal_of(kind: pa.DataType) -> Cast:
    unit = decimal.Decimal(1).scaleb(-kind.scale)
    context = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
    expected = f"a number of {type_words(kind)}"

    def exact(value: Any) -> decimal.Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | str | decimal.Decimal):
            raise MismatchError(expected, value)
        if isinstance(value, str) and not NUMBER.fullmatch(value):
            raise MismatchError(expected, value)
        try:
            found = context.create_decimal(repr(value) if isinstance(value, float) else value).quantize(unit, context=context)
        except (decimal.InvalidOperation, ValueError) as error:
            raise MismatchError(expected, value) from error
        if not found.is_finite() or len(found.as_tuple().digits) > kind.precision:
            raise MismatchError(expected, value)
        return found

    return exact


def date(value: Any) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str) and (match := DATE.fullmatch(value)):
        try:
            return datetime.date(*map(int, match.groups()))
        except ValueError:
            pass
    raise MismatchError("a date such as '2013-01-31'", value)


def timestamp(value: Any) -> datetime.datetime:
    """Return a time, which is in UTC where it says no zone; a number is seconds since 1970."""
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    try:
        if isinstance(value, str):
            return time_of(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return EPOCH + datetime.timedelta(microseconds=int(value * 1_000_000))
    except (OverflowError, ValueError):
        pass
    raise MismatchError("a time such as '2013-01-31 10:05:00'", value)


def time_of(text: str) -> datetime.datetime:
    """Return the time of a text as by CAST; of usual ones, which are many, by Python's reader.

    Raises:
        ValueError: it is none.
        OverflowError: it is none of the years 1 to 9999.
    """
    if USUAL_TIME.match(text):
        found = datetime.datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
    micros = micros_of(text)
    if micros is None:
        raise ValueError(text)
    return EPOCH + datetime.timedelta(microseconds=micros)


def list_of(kind: pa.DataType) -> Cast:
    element = cast_to(kind.value_type)

    def elements(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise MismatchError("an array", value)
        return [None if one is None else inside(element, one, f" as element {at}") for at, one in enumerate(value)]

    return elements


def map_of(kind: pa.DataType) -> Cast:
    key, item = cast_to(kind.key_type), cast_to(kind.item_type)

    def entries(value: Any) -> list[tuple[Any, Any]]:
        pairs = list(value.items()) if isinstance(value, dict) else value
        good = isinstance(pairs, list) and all(isinstance(p, list | tuple) and len(p) == 2 and p[0] is not None for p in pairs)
        if not good:
            raise MismatchError("an object", value)
        return [(inside(key, k, " as a key"), None if v is None else inside(item, v, f" of key {k!r}")) for k, v in pairs]

    return entries


def inside(cast: Cast, value: Any, where: str) -> Any:
    try:
        return cast(value)
    except MismatchError as error:
        raise MismatchError(error.expected, value, where) from error


def nothing(value: Any) -> None:
    raise MismatchError("null", value)
