"""CALIBRATE: predictions are made to mean what they say, by what they said of rows before these were learned from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....algorithms.calibration import ISOTONIC, PLATT
from ...engines.spark_sql.cursor import Cursor
from ...errors import Subject
from ...options import option, parse
from .base import Clause, always, as_record, record_of, same


@dataclass(frozen=True)
class Calibrate:
    """Options of CALIBRATE."""

    method: str = option(
        ISOTONIC,
        "isotonic: any rising curve, of up to 32 knots; platt: a straight line in log odds, as isotonic is below 1,000 "
        "examples of either label",
        choices=(ISOTONIC, PLATT),
    )
    by: tuple[str, ...] = option((), "a categorical column of the query, or a cross: its values get biases of their own")


def read(cursor: Cursor) -> Calibrate | None:
    return parse(Calibrate, cursor.options() if cursor.peek("(") else {}, Subject("CALIBRATE"))


def shown(calibrate: Calibrate | None) -> Iterator[tuple[str, str | None]]:
    if calibrate is not None:
        by = f", by = ({calibrate.by[0]})" if calibrate.by else ""
        yield "calibrate", f"method = '{calibrate.method}'{by}"


CALIBRATE: Clause[Calibrate | None, Calibrate | None] = Clause(
    "CALIBRATE",
    "[(method = 'isotonic' | 'platt', by = (column))]",
    "Calibrate predictions of labels of 0 or 1 by the training's predictions of rows that it had not learned yet: by a "
    "rising curve and, with `by`, a bias for each value of a column, shrunk where rows are few. See "
    "[calibration.md](calibration.md).",
    read,
    None,
    same,
    as_record,
    record_of(Calibrate),
    always,
    shown,
)
