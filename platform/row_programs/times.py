"""Parts of dates and instants, and days between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta

from .base import BITS, INSTANT, LacksError, Maker, Typed, strict
from .conversions import cast, micros

MICROS = 1_000_000


def of_day(function: Callable[[date], int]) -> Maker:
    """Return the maker of a part of a date."""

    def make(arguments: Sequence[Typed]) -> Typed:
        (value,) = arguments
        return strict("integer", function, cast(value.has("date", INSTANT, "varchar"), "date"))

    return make


def of_moment(function: Callable[[datetime], int], kind: str = "integer") -> Maker:
    """Return the maker of a part of an instant."""

    def make(arguments: Sequence[Typed]) -> Typed:
        (value,) = arguments
        return strict(kind, function, cast(value.has("date", INSTANT, "varchar"), INSTANT))

    return make


def days_between(arguments: Sequence[Typed]) -> Typed:
    end, start = (cast(value.has("date", INSTANT, "varchar"), "date") for value in arguments)
    return strict("integer", lambda a, b: (a - b).days, end, start)


def days_added(sign: int) -> Maker:
    """Return the maker of date_add or date_sub."""

    def make(arguments: Sequence[Typed]) -> Typed:
        day, count = arguments
        found = cast(day.has("date", INSTANT, "varchar"), "date")
        return strict("date", lambda a, n: a + timedelta(sign * n), found, count.has(*BITS))

    return make


def to_day(arguments: Sequence[Typed]) -> Typed:
    (value,) = arguments
    return cast(value.has("date", INSTANT, "varchar"), "date")


def to_moment(arguments: Sequence[Typed]) -> Typed:
    (value,) = arguments
    return cast(value.has("date", INSTANT, "varchar"), INSTANT)


def towards_zero(moment: datetime) -> int:
    """Return the seconds since 1970, or until then, without the fraction."""
    found = micros(moment)
    return found // MICROS if found >= 0 else -(-found // MICROS)


def extract(part: str, value: Typed) -> Typed:
    """Return extract(part FROM value)."""
    if part.lower() not in PARTS:
        raise LacksError(f"the part {part.lower()} of a time")
    return FUNCTIONS[PARTS[part.lower()]]([value])


FUNCTIONS: dict[str, Maker] = {
    "year": of_day(lambda day: day.year),
    "quarter": of_day(lambda day: (day.month + 2) // 3),
    "month": of_day(lambda day: day.month),
    "weekofyear": of_day(lambda day: day.isocalendar().week),
    "day": of_day(lambda day: day.day),
    "dayofweek": of_day(lambda day: day.isoweekday() % 7 + 1),
    "weekday": of_day(lambda day: day.weekday()),
    "dayofyear": of_day(lambda day: day.timetuple().tm_yday),
    "hour": of_moment(lambda moment: moment.hour),
    "minute": of_moment(lambda moment: moment.minute),
    "second": of_moment(lambda moment: moment.second),
    "unix_timestamp": of_moment(towards_zero, "bigint"),
    "datediff": days_between,
    "date_add": days_added(1),
    "date_sub": days_added(-1),
    "to_date": to_day,
    "to_timestamp": to_moment,
}
PARTS = {
    **dict.fromkeys(("year", "y", "years"), "year"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "minutes"), "minute"),
}
