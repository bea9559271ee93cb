"""ML.TRAINING_INFO: the progress of every version of a model, also of one in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...training.metrics.measured import MEASURED_ON, PROGRESSIVE, TRAINING, VALIDATION_ROWS
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
    found = progress_table([(version.number, version.folder) for version in versions], columns)
    progressive = {version.number for version in versions if version.manifest.sizes.shards}
    return told(found, progressive)


def told(progress: pa.Table, progressive: set[int]) -> pa.Table:
    """Return progress with passes counted from 1, and `measured_on` after them: in later passes rows that were learned from.

    Args:
        progressive: versions that predict rows of the first pass before they learn from them.
    """
    rows = progress.select(["version", "pass", "validation"]).to_pylist()
    measured = [
        VALIDATION_ROWS if row["validation"] else PROGRESSIVE if row["version"] in progressive and not row["pass"] else TRAINING
        for row in rows
    ]
    at = progress.schema.get_field_index("pass")
    counted = pa.array([None if row["pass"] is None else row["pass"] + 1 for row in rows], progress.schema.field(at).type)
    told = progress.set_column(at, progress.schema.field(at), counted)
    return told.add_column(told.schema.get_field_index("validation") + 1, MEASURED_ON, pa.array(measured, MEASURED_ON.type))


TRAINING_INFO = TableFunction(
    "TRAINING_INFO",
    "ML.TRAINING_INFO(MODEL name [VERSION n])",
    "The progress of a model's trainings, also of a running one: one row per evaluation, with its metrics. pass counts from 1. "
    "measured_on says on which rows: progressive, predicted before they were learned from; training, learned from before, as "
    "all are in later passes; validation.",
    "none",
    (),
    run,
)
