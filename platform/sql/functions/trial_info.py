"""ML.TRIAL_INFO: what TUNE tried for a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ...training.clauses.tune import TUNE
from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext

SCHEMA = pa.schema(
    [
        ("trial_id", pa.int64()),
        ("hyperparameters", pa.map_(pa.string(), pa.string())),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("status", pa.string()),
        ("error_message", pa.string()),
        ("examples", pa.int64()),
        ("seconds", pa.float64()),
        ("is_optimal", pa.bool_()),
    ]
)


def run(context: StatementContext, call: Call) -> pa.Table:
    manifest = context.models.find(call.model, call.version).manifest
    tune = TUNE.kept(manifest)
    if tune is None:
        raise StatementError(f"Version {manifest.version} of {manifest.model} was trained without TUNE; there are no trials.")
    rows = [
        {
            "trial_id": trial["trial_id"],
            "hyperparameters": [(name, str(value)) for name, value in trial["options"].items()],
            "metric": trial["by"],
            "value": trial["metric"],
            "status": trial["status"],
            "error_message": trial["error"],
            "examples": trial.get("examples"),
            "seconds": trial.get("seconds"),
            "is_optimal": trial["is_optimal"],
        }
        for trial in tune.found
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


TRIAL_INFO = TableFunction(
    "TRIAL_INFO",
    "ML.TRIAL_INFO(MODEL name [VERSION n])",
    "What TUNE tried for a version: a row for each trial, with its options, metric and status, and which was the best.",
    "none",
    (),
    run,
)
