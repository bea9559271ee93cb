"""Stage classes: the values of a label that is one of several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...engines.base import Engine, Scan
from ...errors import StatementError
from ...input.columns import Classes, Columns, columns_from
from ...input.roles import LABEL
from ...quoting import quoted
from ..plan import Plan
from .base import Preparation, Stage

MOST_CLASSES = 1000


def rows(given: Preparation) -> Preparation:
    """Find the classes; a training that is resumed has those of its manifest."""
    if given.resumed is not None:
        return given.having(columns=replace(given.columns, classes=columns_from(given.resumed).classes))
    found = with_classes(given.plan, given.columns, given.scan, given.engine, given.folders.staged)
    return given.having(columns=found)


def with_classes(plan: Plan, columns: Columns, scan: Scan, engine: Engine, folder: Path) -> Columns:
    """Return the columns with the classes of the label, in order, where they are not known: one query reads that column.

    Args:
        folder: where the rows are that were staged.

    Raises:
        StatementError: there are fewer than two, or too many.
    """
    if columns.classes is None or columns.classes.known:
        return columns
    (label,) = columns.labels
    if plan.stream is not None:
        raise StatementError(
            f"{LABEL} {label} has classes, and the classes of a stream are not known in advance. TRAIN on a table that has all "
            "of them, then CONTINUE from the stream.",
            subject=LABEL,
        )
    rows = f"SELECT * FROM parquet.{quoted(str(folder.absolute()))}" if scan.staged else plan.query
    distinct = f"SELECT DISTINCT {quoted(label)} FROM ({rows}) LIMIT {MOST_CLASSES + 2}"  # NULL may be one of them
    found = sorted(value for value in engine.reader(distinct).read_all().column(0).to_pylist() if value is not None)
    if not 2 <= len(found) <= MOST_CLASSES:
        what = f"only {found[0]!r}" if len(found) == 1 else "NULL alone" if not found else f"more than {MOST_CLASSES:,} values"
        remedy = (
            "An id is not a class: learn what belongs together by two_tower, slrm or xsvd, or merge rare values in the query"
            if found[2:]
            else "Look at what the query makes of it, or whether its filter leaves the others out"
        )
        raise StatementError(f"{LABEL} {label} has {what}; a label has 2 to {MOST_CLASSES:,} classes. {remedy}.", subject=LABEL)
    return replace(columns, classes=Classes(tuple(found), columns.classes.type))


STAGE = Stage(rows=rows)
