"""ML.TRAINING_INFO: the progress of every version of a model, also of one in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ....warehouse.trainings.progress import progress_columns, progress_table
    from ...training.metrics import metric_names

    versions = context.models.versions(call.model)
    if call.version is not None:
        versions = [context.models.find(call.model, call.version)]
    columns = progress_columns(metric_names(grouped=True))
    return progress_table([(version.number, version.folder) for version in versions], columns)


TRAINING_INFO = TableFunction(
    "TRAINING_INFO",
    "ML.TRAINING_INFO(MODEL name [VERSION n])",
    "The progress of a model's trainings, also of a running one: one row per evaluation, with its metrics.",
    "none",
    (),
    run,
)
