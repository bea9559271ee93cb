"""ML.OPTIONS: what a version was trained with, a row for each option."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.options import options_of

    return options_of(context.models.find(call.model, call.version).manifest)


OPTIONS = TableFunction(
    "OPTIONS",
    "ML.OPTIONS(MODEL name [VERSION n])",
    "The options of a version: clause (USING, OPERATORS, WITH), part, option, value, default, whether it was given, and "
    "chosen_by: user, default, or rule, as for a batch size by the number of rows.",
    "none",
    (),
    run,
)
