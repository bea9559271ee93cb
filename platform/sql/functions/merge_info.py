"""ML.MERGE_INFO: what a merged version was merged of."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext

COUNTS = ("examples", "rows", "only_here", "shared")
SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("identity", pa.string()),
        *((name, pa.int64()) for name in COUNTS),
        ("weight", pa.float64()),
        ("distance", pa.float64()),
    ]
)


def run(context: StatementContext, call: Call) -> pa.Table:
    merged = context.models.find(call.model, call.version).manifest.merged
    return pa.Table.from_pylist([dataclasses.asdict(one) for one in merged], SCHEMA)


MERGE_INFO = TableFunction(
    "MERGE_INFO",
    "ML.MERGE_INFO(MODEL name [VERSION n])",
    "What MERGE MODEL made a version of: source, identity, examples that it learned since, rows of its first table, only_here, "
    "shared, weight (its share by examples), distance (the L2 norm of what it changed of the first table's weights).",
    "none",
    (),
    run,
)
