"""How old an event of a history may be: `WITHIN INTERVAL 30 DAYS`, or a number where times are numbers."""

from __future__ import annotations

import re

import pyarrow as pa

from ..errors import StatementError

MICROSECONDS = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6, "DAY": 86400 * 10**6, "WEEK": 7 * 86400 * 10**6}
FORM = "INTERVAL n SECONDS | MINUTES | HOURS | DAYS | WEEKS, or a number"
AGE = re.compile(r"INTERVAL (\d+) ([A-Z]+?)S?|(\d+)")
DAY = MICROSECONDS["DAY"]


def age_in_units(within: str, order: pa.DataType) -> int:
    """Return an age in the unit that times of a type are numbers in: microseconds, days, or their own.

    Raises:
        StatementError: it is of another kind than the times.
    """
    match = AGE.fullmatch(within)
    unit = MICROSECONDS.get(match[2] or "") if match else None
    if match and unit is not None and pa.types.is_timestamp(order):
        return int(match[1]) * unit
    if match and unit is not None and pa.types.is_date(order) and int(match[1]) * unit % DAY == 0:
        return int(match[1]) * unit // DAY
    if match and match[3] and pa.types.is_integer(order):
        return int(match[3])
    raise StatementError(f"WITHIN takes {FORM}, as ORDER BY is a timestamp, a date in days, or a number; got {within}.")
