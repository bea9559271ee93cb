"""ML.AUDIT: who changed what in the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...provenance.audit import read

    return read(context.models.warehouse)


AUDIT = TableFunction(
    "AUDIT",
    "ML.AUDIT()",
    "Statements that changed something in the warehouse, oldest first: time, user, host, pid, statement, model, the version "
    "served before and after, the newest one, and the error of one that failed. intact is false if a line is "
    "damaged, or does not continue the line before.",
    "none",
    (),
    run,
    model="none",
)
