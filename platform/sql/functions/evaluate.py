"""ML.EVALUATE: the metrics of a version, on data or as its training found them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import ModelError
from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    from ....warehouse.version import Version
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table | Pending:
    version, data = call.read(context), call.data
    if data is None:
        return of_training(version)

    from ...scoring.evaluation import Evaluation

    with data.locating():
        group = version.manifest.group if version.manifest.labels else None
        evaluation = Evaluation(version, context.engine, data.text, group)

    def measure() -> pa.Table:
        with data.locating():
            return evaluation.measure(call.folder, context.reporter)

    return Pending(evaluation.schema, measure)


def of_training(version: Version) -> pa.Table:
    """Return the metrics over all examples that this version learned from, each scored before it was learned from.

    Raises:
        ModelError: it learned from none: SHRINK made it.
    """
    metrics = version.manifest.metrics
    if not metrics:
        raise ModelError(
            f"Version {version.number} of model {version.manifest.model} was not made by a training and has no metrics of one. "
            "Give ML.EVALUATE data: ML.EVALUATE(MODEL name, TABLE t)."
        )
    from ...training.metrics.labels import divided, metrics_schema

    labels = version.manifest.labels
    found = {label: values for label, values in divided(metrics, labels or ("",)).items() if {*values} - {"examples"}}
    rows = [{"label": label, **values} for label, values in found.items()]
    return pa.Table.from_pylist(rows, metrics_schema(next(iter(found.values())), len(labels) > 1))


EVALUATE = TableFunction(
    "EVALUATE",
    "ML.EVALUATE(MODEL name [VERSION n] [, TABLE t | (query)])",
    "One row of metrics: on data with labels, or without data those of the training. Of several labels a row of each.",
    "optional",
    (),
    run,
)
