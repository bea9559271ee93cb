"""The types of columns whose values are in the names of folders, as Spark finds them.

Source: Spark's org.apache.spark.sql.execution.datasources.PartitioningUtils: inferPartitionColumnValue, resolveTypeConflicts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from ...changes import NO_VALUE

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?|NaN|[+-]?Infinity", re.ASCII)
WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?", re.ASCII)
LARGEST = 38
DIGITS = {"INTEGER": 10, "BIGINT": 20}


def partition_kinds(values: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return the DuckDB type of each column, in the order of the folders."""
    return {name: common({kind_of(value[name]) for value in values if value[name] != NO_VALUE}) for name in values[0]}


def kind_of(value: str) -> str:
    """Return the type of one value."""
    if NUMBER.fullmatch(value):
        return kind_of_number(value)
    if DATE.fullmatch(value) and is_time(value):
        return "DATE"
    return "TIMESTAMPTZ" if TIME.fullmatch(value) and is_time(value) else "VARCHAR"


def kind_of_number(value: str) -> str:
    if WHOLE.fullmatch(value) and -(1 << 63) <= int(value) < 1 << 63:
        return "INTEGER" if -(1 << 31) <= int(value) < 1 << 31 else "BIGINT"
    number = Decimal(value)
    digits = number.adjusted() + 1
    exponent = number.as_tuple().exponent
    return f"DECIMAL({digits},0)" if isinstance(exponent, int) and exponent >= 0 and digits <= LARGEST else "DOUBLE"


def is_time(value: str) -> bool:
    """Return whether a date, or a date and time, is there in the calendar."""
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def common(kinds: set[str]) -> str:
    """Return the type that values of some types have."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= {"DATE", "TIMESTAMPTZ"} and kinds:
        return "TIMESTAMPTZ"
    if kinds == {"INTEGER", "DOUBLE"}:
        return "DOUBLE"
    if not kinds or kinds & {"DATE", "TIMESTAMPTZ", "DOUBLE", "VARCHAR"}:
        return "VARCHAR"
    if kinds == set(DIGITS):
        return "BIGINT"
    return f"DECIMAL({max(DIGITS.get(kind) or int(kind[8:-3]) for kind in kinds)},0)"
