"""ML.WEIGHTS: one row per feature that a version knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ...session import Session


def run(session: Session, call: Call) -> list[Path]:
    from ....warehouse.exports import write_parquet
    from ....warehouse.weights import weights

    version = session.models.version(call.model, call.version)
    path = call.folder / "weights.parquet"
    with weights(version, session.engine) as relation:
        write_parquet(path, session.engine.reader(relation.select(call.columns)))
    return [path]


WEIGHTS = TableFunction(
    "WEIGHTS",
    "ML.WEIGHTS(MODEL name [VERSION n])",
    "The features: slot, key, weight (or weights), count, updates, last_seen, shows, clicks, utility, information; "
    "table before those where the model has several, as fm has weights and vectors; offered where operators offer something.",
    "none",
    (),
    run,
)
