"""ML.VERSIONS: the versions of one model, or of all, as a table; ML.MERGE_INFO: what one of them was merged of."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.listings import versions_table

    if call.model:
        found = context.models.versions(call.model)
        wanted = [version for version in found if call.version in (None, version.number)]
        wanted = wanted or [context.models.find(call.model, call.version)]
    else:  # a model may have been dropped between the two looks
        wanted = [version for name in context.models.names(None) for version in context.models.shown(name)]
    return versions_table(wanted, with_model=True)


VERSIONS = TableFunction(
    "VERSIONS",
    "ML.VERSIONS([MODEL name [VERSION n]])",
    "The versions of a model, or of all models, as SHOW VERSIONS lists them: `model`, then a row for each, oldest first.",
    "none",
    (),
    run,
    model="optional",
)

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


def run_merge_info(context: StatementContext, call: Call) -> pa.Table:
    merged = context.models.find(call.model, call.version).manifest.learned.origin.merged
    return pa.Table.from_pylist([dataclasses.asdict(one) for one in merged], SCHEMA)


MERGE_INFO = TableFunction(
    "MERGE_INFO",
    "ML.MERGE_INFO(MODEL name [VERSION n])",
    "What MERGE MODEL made a version of: source, identity, examples that it learned since, rows of its first table, only_here, "
    "shared, weight (its share by examples), distance (the L2 norm of what it changed of the first table's weights).",
    "none",
    (),
    run_merge_info,
)
