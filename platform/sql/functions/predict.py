"""ML.PREDICT: the input's columns and predicted_<label>."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError
from ..base import Call, Keyword, Pending, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext
    from ..cursor import Cursor


def read_level(cursor: Cursor) -> float:
    first = cursor.index
    level = float(cursor.number())
    if not 0 < level < 1:
        raise StatementError("INTERVAL expects the share of labels that it has, above 0 and below 1.", cursor.span(first))
    return level


def run(context: StatementContext, call: Call) -> Pending:
    from ...scoring.prediction import Prediction

    data = call.data
    assert data is not None  # required by the grammar
    version = call.read(context)
    with data.locating():
        prediction = Prediction(version, context.engine, data.text, call.keywords.get("INTERVAL"))

    def write() -> pa.Table | list[Path]:
        with data.locating():
            return prediction.write(call.columns, call.folder, context.reporter)

    return Pending(prediction.schema, write)


PREDICT = TableFunction(
    "PREDICT",
    "ML.PREDICT(MODEL name [VERSION n], TABLE t | (query) [, INTERVAL share] [, VECTORS name AS (query)] ...)",
    "Score rows: the input's columns and predicted_<label>, or predicted_vector of an algorithm without labels. Of numbers "
    "INTERVAL 0.9 adds predicted_<label>_low and predicted_<label>_high, between which 90 % of labels lie: "
    "[calibration.md](calibration.md#intervals-of-numbers).",
    "required",
    (),
    run,
    keywords=(Keyword("INTERVAL", read_level),),
    vectors=True,
)
