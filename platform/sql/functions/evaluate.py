"""ML.EVALUATE: the metrics of a version, on data or as its training found them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import ModelError
from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ....warehouse.version import Version
    from ...session import Session


def run(session: Session, call: Call) -> pa.Table:
    version = session.models.version(call.model, call.version)
    if call.data is None:
        return of_training(version)

    from ...flow.evaluation import evaluate

    with call.data.locating():
        return typed(evaluate(version, session.engine, call.data.text, call.folder, session.reporter))


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
    return typed(pa.Table.from_pylist([dict(metrics)]))


def typed(row: pa.Table) -> pa.Table:
    """Give every metric its type, also where it is NULL: examples BIGINT, the others DOUBLE."""
    types = [(name, pa.int64() if name == "examples" else pa.float64()) for name in row.schema.names]
    return row.cast(pa.schema(types))


EVALUATE = TableFunction(
    "EVALUATE",
    "ML.EVALUATE(MODEL name [VERSION n] [, TABLE t | (query)])",
    "One row of metrics: on data with labels, or without data those of the training; of several labels those of the first.",
    "optional",
    (),
    run,
)
