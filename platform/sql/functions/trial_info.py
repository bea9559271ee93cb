"""ML.TRIAL_INFO: what TUNE or USING auto tried for a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ...training.clauses.budget import BUDGET
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
        ("stage", pa.string()),
        ("statement", pa.string()),
        ("rows", pa.int64()),
        ("difference", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)


def run(context: StatementContext, call: Call) -> pa.Table:
    manifest = context.models.find(call.model, call.version).manifest
    tried = TUNE.kept(manifest) or BUDGET.kept(manifest)
    if tried is None:
        what = f"Version {manifest.version} of {manifest.model} was trained without TUNE or USING auto"
        raise StatementError(f"{what}; there are no trials.")
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
            "rows": trial.get("examples"),
            **{name: trial.get(name) for name in ("stage", "statement", "difference", "low", "high")},
        }
        for trial in tried.found
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


TRIAL_INFO = TableFunction(
    "TRIAL_INFO",
    "ML.TRIAL_INFO(MODEL name [VERSION n])",
    "What TUNE or USING auto tried for a version: a row for each trial, with its options, metric, status and seconds, and "
    "which was the best. Of auto also the stage, the statement, and the difference from the defaults of xftrl, with low and "
    "high, which bound it in 95 %, on the half of the rows held out that chooses.",
    "none",
    (),
    run,
)
