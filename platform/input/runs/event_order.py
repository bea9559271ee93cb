"""Rows that are events: in order of users and times."""

from __future__ import annotations

import pyarrow as pa

from ...quoting import quoted
from ...spark_types import is_category
from ..columns import Columns

REASON = "rows of a user are sorted by time"


def column_of(columns: Columns, role: str) -> str | None:
    """Return the column of users, or of times, by its role; None where rows stand for themselves."""
    return next((slot.column for slot in columns.slots if slot.role == role), None)


def in_order(query: str, schema: pa.Schema, user: str | None, time: str | None) -> str:
    """Return a query whose rows come user by user, each user's by time, and those of one moment by their values; the query
    itself where rows stand for themselves."""
    if user is None or time is None:
        return query
    own = {name.lower(): name for name in schema.names}
    first = [own[name.lower()] for name in (user, time)]
    rest = [field.name for field in schema if field.name not in first and is_category(field.type)]
    return f"SELECT * FROM ({query}\n) ORDER BY {', '.join(map(quoted, [*first, *rest]))}"
