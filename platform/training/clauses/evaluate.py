"""EVALUATE: windows that are scored before they are learned from."""

from __future__ import annotations

from collections.abc import Iterator

from ...engines.spark_sql.cursor import Cursor
from ...errors import StatementError
from ..metrics.evaluate import Evaluate
from .base import Clause, always, as_record, record_of, same


def read(cursor: Cursor) -> Evaluate | None:
    cursor.expect("EVERY")
    every = read_batches(cursor)
    cursor.expect("BATCHES", "ON")
    on = read_batches(cursor)
    cursor.expect("BATCHES")
    return Evaluate(every, on, cursor.identifier("a column") if cursor.accept("BY") else None)


def read_batches(cursor: Cursor) -> int:
    position = cursor.position()
    batches = cursor.integer("a number of batches")
    if not batches:
        raise StatementError("EVALUATE EVERY m BATCHES ON n BATCHES expects at least 1 for m and n.", position)
    return batches


def shown(evaluate: Evaluate | None) -> Iterator[tuple[str, str | None]]:
    if evaluate is not None:
        by = f" BY {evaluate.by}" if evaluate.by else ""
        yield "evaluate", f"EVERY {evaluate.every} BATCHES ON {evaluate.on} BATCHES{by}"


EVALUATE = Clause(
    "EVALUATE",
    "EVERY m BATCHES ON n BATCHES [BY column]",
    "After every m batches of a pass the next n are scored before they are learned from: a window, which is a row "
    "of ML.TRAINING_INFO; with BY, one more for each value of a column.",
    read,
    None,
    same,
    as_record,
    record_of(Evaluate),
    always,
    shown,
)
