"""Texts of dates, times and zones as Spark casts them, where DuckDB reads them otherwise.

Source: Spark's org.apache.spark.sql.catalyst.util.SparkDateTimeUtils, stringToDate, parseTimestampString and getZoneId.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from .base import Computed

SPACE = "".join(map(chr, (*range(33), 127)))
DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
TIME = re.compile(
    r"(?:([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T](?=[0-9]))?)?)?)?"
    r"(?:(?<=[ T])([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?(\D.*)?)?)?)?",
    re.ASCII | re.DOTALL,
)
CLOCK = re.compile(r"T?([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?(\D.*)?)?", re.ASCII | re.DOTALL)
OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?", re.ASCII)
SHORT = {
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
DAY, HOUR, MINUTE, SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000
EPOCH = datetime(1970, 1, 1)
STEP = 900 * SECOND
"""Zones change their offsets at multiples of it, since 1972."""
EXACT_BEFORE = 2 * 365 * DAY
MOST_OFFSET = 18 * 60


def days_of(text: str) -> int | None:
    """Return the date of a text, in days since 1970; None where it is none."""
    found = DATE.fullmatch(text.strip(SPACE))
    if found is None:
        return None
    sign, year, month, day = found.groups()
    return civil(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))


def civil(year: int, month: int, day: int) -> int | None:
    """Return a date in days since 1970; None where the calendar has none.

    Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
    """
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= MONTH_DAYS[month - 1] + leap:
        return None
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def micros_of(text: str) -> int | None:
    """Return the moment of a text, in microseconds since 1970; None where it is none. Without a zone it is in UTC."""
    text = text.strip(SPACE)
    if (found := CLOCK.fullmatch(text)) is not None:
        days: int | None = (datetime.now(UTC).replace(tzinfo=None) - EPOCH).days
        clock = found.groups()
    elif text and (found := TIME.fullmatch(text)) is not None and found[2]:
        sign, year, month, day, *clock = found.groups()  # type: ignore[assignment]
        days = civil(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))
    else:
        return None
    hour, minute, second, fraction, zone = clock
    if days is None or int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        return None
    micros = days * DAY + int(hour or 0) * HOUR + int(minute or 0) * MINUTE + int(second or 0) * SECOND
    micros += int(f"{fraction or '':0<6}"[:6])
    if zone is None:
        return micros
    found_zone = zone_of(zone.strip(SPACE))
    return None if found_zone is None else micros - offset_at(micros, found_zone, True)


@functools.lru_cache(maxsize=1 << 10)
def zone_of(name: str) -> tzinfo | None:
    """Return the zone of a name or offset, as "Europe/Berlin", "+05:30" and "Z"; None where there is none."""
    name = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name, count=1)
    name = re.sub(r"([+-][0-9]{2}):([0-9])$", r"\1:0\2", name)
    name = SHORT.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if (found := OFFSET.fullmatch(name)) is not None:
        sign, *parts = found.groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        if minutes > 59 or seconds > 59 or hours * 60 + minutes > MOST_OFFSET or (hours == 18 and (minutes or seconds)):
            return None
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@functools.lru_cache(maxsize=1 << 16)
def offset_at(micros: int, zone: tzinfo, local: bool) -> int:
    """Return a zone's offset, in microseconds, at a local time or a moment.

    Of a local time that is there twice, it is the offset before the change, and so it is of one that is passed over.
    """
    moment = EPOCH + timedelta(microseconds=min(max(micros, -62_135_510_400_000_000), 253_402_214_400_000_000))
    aware = moment.replace(tzinfo=zone) if local else moment.replace(tzinfo=UTC).astimezone(zone)
    offset = aware.utcoffset()
    assert offset is not None  # of an aware time
    return round(offset / timedelta(microseconds=1))


def shifted(columns: Sequence[pa.Array]) -> pa.Array:
    """Return local times of one zone, int64[n] of microseconds, as those of another: (micros, from, to); NULL for no zone."""
    micros, sources, targets = (column.to_pylist() for column in columns)
    return pa.array(list(map(shift, micros, sources, targets)), pa.int64())


def shift(micros: int | None, source: str | None, target: str | None) -> int | None:
    if micros is None or source is None or target is None:
        return None
    zones = zone_of(source), zone_of(target)
    if zones[0] is None or zones[1] is None:
        return None
    moment = micros - offset_at(rounded(micros), zones[0], True)
    return moment + offset_at(rounded(moment), zones[1], False)


def rounded(micros: int) -> int:
    """Return a time at which a zone has the same offset, so that few are asked for."""
    return micros - micros % (STEP if micros >= EXACT_BEFORE else SECOND)


def of_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the moments of texts, int64[n] of microseconds, NULL for those that are none."""
    return pa.array([None if text is None else within(micros_of(text)) for text in columns[0].to_pylist()], pa.int64())


def within(micros: int | None) -> int | None:
    return micros if micros is not None and abs(micros) < 1 << 63 else None


def dates_of_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the dates of texts, int64[n] of days, NULL for those that are none."""
    return pa.array([None if text is None else days_of(text) for text in columns[0].to_pylist()], pa.int64())


REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?", re.ASCII)
HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?", re.ASCII)
NOT_A_NUMBER = re.compile(r"[+-]?NaN|[+-]?Infinity")
SPECIAL = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE)


def real_of(text: str) -> float | None:
    """Return the number of a text as Java's parseDouble has it, and Spark's words for what is no number; None for others."""
    text = text.strip(SPACE)
    if REAL.fullmatch(text):
        return float(text.rstrip("dDfF"))
    if HEXADECIMAL.fullmatch(text):
        return float.fromhex(text.rstrip("dD") if text[-1] in "dD" else text.rstrip("fF"))
    return float(text) if NOT_A_NUMBER.fullmatch(text) or SPECIAL.fullmatch(text) else None


def reals_of_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the numbers of texts, float64[n], NULL for those that are none."""
    return pa.array([None if text is None else real_of(text) for text in columns[0].to_pylist()], pa.float64())


text_micros = Computed("xpsql_text_micros", of_texts, pa.int64())
text_days = Computed("xpsql_text_days", dates_of_texts, pa.int64())
text_real = Computed("xpsql_text_real", reals_of_texts, pa.float64())
shifted_micros = Computed("xpsql_shifted_micros", shifted, pa.int64())
