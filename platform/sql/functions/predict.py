"""ML.PREDICT: the input's columns and predicted_<label>."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ...session import Session


def run(session: Session, call: Call) -> list[Path]:
    from ...flow.prediction import predict

    assert call.data is not None  # required by the grammar
    version = session.models.version(call.model, call.version)
    with call.data.locating():
        return predict(version, session.engine, call.data.text, call.columns, call.folder, session.reporter)


PREDICT = TableFunction(
    "PREDICT",
    "ML.PREDICT(MODEL name [VERSION n], TABLE t | (query))",
    "Score rows: the input's columns and predicted_<label>, or predicted_vector of an algorithm without labels.",
    "required",
    (),
    run,
)
