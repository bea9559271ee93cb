"""ML.NEAREST: the features nearest to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...engines.spark_sql.passage import Passage
from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.nearest import nearest_to, nearest_to_rows

    version = call.read(context)
    slot, value, k = call.arguments
    if not isinstance(value, Passage):
        return nearest_to(version, str(slot), value, k)
    with value.locating():
        return nearest_to_rows(version, str(slot), context.engine.reader(value.text).read_all(), k)


NEAREST = TableFunction(
    "NEAREST",
    "ML.NEAREST(MODEL name [VERSION n], slot, value | TABLE t | (query), k)",
    "The k features of a slot whose vectors are nearest to one's: slot, key, similarity (cosine). For a query, whose first "
    "column has the values: the k nearest for each row, with the row's columns. For models with vectors.",
    "none",
    ("a slot", "a value", "a number of features"),
    run,
    queries=True,
)
