"""ML.PREDICT: the input's columns and predicted_<label>."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> Pending:
    from ...scoring.prediction import Prediction

    data = call.data
    assert data is not None  # required by the grammar
    version = call.read(context)
    with data.locating():
        prediction = Prediction(version, context.engine, data.text)

    def write() -> pa.Table | list[Path]:
        with data.locating():
            return prediction.write(call.columns, call.folder, context.reporter)

    return Pending(prediction.schema, write)


PREDICT = TableFunction(
    "PREDICT",
    "ML.PREDICT(MODEL name [VERSION n], TABLE t | (query) [, VECTORS name AS (query)] ...)",
    "Score rows: the input's columns and predicted_<label>, or predicted_vector of an algorithm without labels.",
    "required",
    (),
    run,
    vectors=True,
)
