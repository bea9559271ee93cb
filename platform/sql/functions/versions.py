"""ML.VERSIONS: the versions of one model, or of all, as a table."""

from __future__ import annotations

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
