"""ML.FEATURE_INFO: one row per slot of a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.feature_info import feature_info

    return feature_info(call.read(context), context.engine)


FEATURE_INFO = TableFunction(
    "FEATURE_INFO",
    "ML.FEATURE_INFO(MODEL name [VERSION n])",
    "The slots: slot, kind, features, coverage (occurrences per example), mean_abs_weight, updates.",
    "none",
    (),
    run,
)
