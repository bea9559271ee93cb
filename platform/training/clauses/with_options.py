"""WITH: settings of the training. Its value are the names of those that users gave; the plan and a manifest have settings of
their own."""

from __future__ import annotations

from collections.abc import Mapping

from ...engines.spark_sql.cursor import Cursor
from ...options import Value
from .base import Clause, always, of_type, same


def names(options: Mapping[str, Value]) -> tuple[str, ...]:
    return tuple(sorted(options))


WITH: Clause[dict[str, Value], tuple[str, ...]] = Clause(
    "WITH",
    "(option = value, ...)",
    "Settings of the training, below.",
    Cursor.options,
    (),
    names,
    same,
    of_type(tuple, tuple[str, ...]),
    always,
)
