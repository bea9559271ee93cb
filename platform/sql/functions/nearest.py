"""ML.NEAREST: the features nearest to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.nearest import nearest

    version = call.read(context)
    slot, value, k = call.arguments
    return nearest(version, str(slot), value, k)


NEAREST = TableFunction(
    "NEAREST",
    "ML.NEAREST(MODEL name [VERSION n], slot, value, k)",
    "The k features of a slot whose vectors are nearest to one's: slot, key, similarity (cosine). For models with vectors.",
    "none",
    ("a slot", "a value", "a number of features"),
    run,
)
