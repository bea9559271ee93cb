"""ML.MODELS: the models of the warehouse as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.listings import models_table

    return models_table(context.models, None)


MODELS = TableFunction(
    "MODELS",
    "ML.MODELS()",
    "The models, as SHOW MODELS lists them: a row each.",
    "none",
    (),
    run,
    model="none",
)
