"""WEIGHT: how much examples count."""

from __future__ import annotations

from ...engines.spark_sql.cursor import Cursor
from .base import Clause, always, named, of_type, same


def read(cursor: Cursor) -> str | None:
    return cursor.identifier("a column")


WEIGHT = Clause(
    "WEIGHT",
    "column",
    "A number that an example's loss is multiplied with. Metrics, counts and scales take every example once.",
    read,
    None,
    same,
    same,
    of_type(str),
    always,
    named("weight"),
)
