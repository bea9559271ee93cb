"""xpsql_pattern_micros: texts of times read by a pattern of Java's DateTimeFormatter, as Spark reads them.

Source: java.time.format.DateTimeFormatterBuilder.appendPattern, and Spark's DateTimeFormatterHelper, which fills what a pattern
lacks from 1970-01-01 00:00.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from .base import Computed
from .text_times import DAY, HOUR, MINUTE, SECOND, civil, offset_at, zone_of

PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
NUMBER = r"[0-9]{1,2}"
TWO = r"[0-9]{2}"
SHORT_MONTH, LONG_MONTH = "|".join(name[:3] for name in MONTHS), "|".join(MONTHS)
ZONE = r"[A-Za-z][A-Za-z0-9_/+\-:]*|[+\-][0-9:]+"
NUMBERS = {
    "d": "day",
    "H": "hour",
    "k": "hour_24",
    "h": "hour_12",
    "K": "hour_11",
    "m": "minute",
    "s": "second",
    "M": "month",
    "L": "month",
}
READ: Mapping[str, tuple[str, str]] = {
    "y": ("year", r"[0-9]{1,9}"),
    "yy": ("short_year", TWO),
    "yyy": ("year", "[0-9]{3,9}"),
    **{"y" * count: ("year", rf"[0-9]{{{count}}}|\+[0-9]{{{count + 1},9}}") for count in range(4, 7)},
    **{"g" * count: ("julian", rf"[0-9]{{{count},9}}") for count in range(1, 7)},
    **{letter: (field, NUMBER) for letter, field in NUMBERS.items()},
    **{2 * letter: (field, TWO) for letter, field in NUMBERS.items()},
    **dict.fromkeys(("MMM", "LLL"), ("month_name", SHORT_MONTH)),
    **dict.fromkeys(("MMMM", "LLLL"), ("month_name", LONG_MONTH)),
    "D": ("day_of_year", r"[0-9]{1,3}"),
    "DD": ("day_of_year", r"[0-9]{2,3}"),
    "DDD": ("day_of_year", r"[0-9]{3}"),
    "a": ("half", "AM|PM"),
    **dict.fromkeys(("G", "GG", "GGG"), ("era", "AD|BC")),
    "GGGG": ("era", "Anno Domini|Before Christ"),
    **{"S" * count: ("fraction", rf"[0-9]{{1,{count}}}") for count in range(1, 10)},
    "X": ("offset", rf"Z|[+\-]{TWO}(?:{TWO})?"),
    "XX": ("offset", rf"Z|[+\-]{TWO}{TWO}"),
    "XXX": ("offset", rf"Z|[+\-]{TWO}:{TWO}"),
    "x": ("offset", rf"[+\-]{TWO}(?:{TWO})?"),
    "xx": ("offset", rf"[+\-]{TWO}{TWO}"),
    "xxx": ("offset", rf"[+\-]{TWO}:{TWO}"),
    "xxxx": ("offset", rf"[+\-]{TWO}{TWO}(?:{TWO})?"),
    "xxxxx": ("offset", rf"[+\-]{TWO}:{TWO}(?::{TWO})?"),
    "XXXX": ("offset", rf"Z|[+\-]{TWO}{TWO}(?:{TWO})?"),
    "XXXXX": ("offset", rf"Z|[+\-]{TWO}:{TWO}(?::{TWO})?"),
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), ("offset", rf"[+\-]{TWO}{TWO}")),
    "ZZZZZ": ("offset", rf"Z|[+\-]{TWO}:{TWO}"),
    "O": ("offset", rf"GMT(?:[+\-]{NUMBER}(?::{TWO})?)?"),
    **dict.fromkeys(("OOOO", "ZZZZ"), ("offset", rf"GMT(?:[+\-]{TWO}:{TWO})?")),
    **dict.fromkeys(("VV", "v", "z", "zz", "zzz"), ("offset", ZONE)),
}
JULIAN = -40_587  # the first day of modified Julian days, in days since 1970
RANGES = {
    "month": (1, 12),
    "hour": (0, 23),
    "hour_24": (1, 24),
    "hour_12": (1, 12),
    "hour_11": (0, 11),
    "minute": (0, 59),
    "second": (0, 59),
}


class PatternReading(NamedTuple):
    """A pattern to read by: the texts that it matches, and the field of each group."""

    matches: re.Pattern[str]
    fields: tuple[str, ...]


@functools.lru_cache(maxsize=256)
def reading_of(pattern: str) -> PatternReading | None:
    """Return how texts are read by a pattern; None for one that has a letter, or a number of them, by which none are read."""
    parts, fields = [], []
    for found in PIECES.finditer(pattern):
        text = found.group()
        if found[1] is not None:
            parts.append(re.escape("'" if text == "''" else found[1].replace("''", "'")))
        elif found[2] is None:
            parts.append({"[": "(?:", "]": ")?"}.get(text) or re.escape(text))
        elif text in READ:
            field, matched = READ[text]
            fields.append(field)
            parts.append(f"({matched})")
        else:
            return None
    try:
        return PatternReading(re.compile("".join(parts), re.ASCII | re.IGNORECASE), tuple(fields))
    except re.error:
        return None


@functools.lru_cache(maxsize=1 << 14)
def micros_by(text: str, pattern: str) -> int | None:
    """Return the moment of a text by a pattern, in microseconds since 1970; None where it does not match."""
    reading = reading_of(pattern)
    found = None if reading is None else reading.matches.fullmatch(text)
    if reading is None or found is None:
        return None
    values: dict[str, str] = {}
    for field, value in zip(reading.fields, found.groups(), strict=True):
        if value is not None and values.setdefault(field, value) != value:
            return None
    numbers = {field: int(value) for field, value in values.items() if value.lstrip("+").isdigit()}
    if any(not low <= numbers.get(field, low) <= high for field, (low, high) in RANGES.items()):
        return None
    days = day_of(values, numbers)
    if days is None:
        return None
    micros = (
        days * DAY + hour_of(values, numbers) * HOUR + numbers.get("minute", 0) * MINUTE + numbers.get("second", 0) * SECOND
    )
    micros += int(f"{values.get('fraction', ''):0<6}"[:6])
    if "offset" not in values:
        return micros
    zone = zone_of(values["offset"])
    return None if zone is None else micros - offset_at(micros, zone, True)


def day_of(values: Mapping[str, str], numbers: Mapping[str, int]) -> int | None:
    """Return the date of fields, in days since 1970."""
    year = 2000 + numbers["short_year"] if "short_year" in numbers else numbers.get("year", 1970)
    if values.get("era", "AD").upper() in ("BC", "BEFORE CHRIST"):
        year = 1 - year
    if "day_of_year" in numbers:
        first = civil(year, 1, 1)
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return None if first is None or not 1 <= numbers["day_of_year"] <= 365 + leap else first + numbers["day_of_year"] - 1
    if "julian" in numbers:
        return numbers["julian"] + JULIAN
    month = numbers.get("month", 1)
    if "month_name" in values:
        month = 1 + [name[:3].lower() for name in MONTHS].index(values["month_name"][:3].lower())
    return civil(year, month, numbers.get("day", 1))


def hour_of(values: Mapping[str, str], numbers: Mapping[str, int]) -> int:
    if "hour" in numbers or "hour_24" in numbers:
        return numbers.get("hour", numbers.get("hour_24", 0)) % 24
    hour = numbers.get("hour_11", numbers.get("hour_12", 0)) % 12
    return hour + 12 if values.get("half", "AM").upper() == "PM" else hour


def by_pattern(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the moments of texts by patterns: (text, pattern), int64[n] of microseconds, NULL for those that do not match."""
    texts, patterns = (column.to_pylist() for column in columns)
    return pa.array([None if None in row else micros_by(*row) for row in zip(texts, patterns, strict=True)], pa.int64())


pattern_micros = Computed("xpsql_pattern_micros", by_pattern, pa.int64())
