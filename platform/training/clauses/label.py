"""LABEL: what is predicted, or what says that a row was taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...engines.spark_sql.cursor import Cursor
from .base import Clause, as_record, record_of, same


@dataclass(frozen=True)
class Labels:
    """The columns of LABEL.

    Attributes:
        columns: to predict; none for algorithms that learn without labels.
        late: an example comes with label 0, and once more with 1 where that is its label.
        positive: of an algorithm that learns from positives alone, the column that is 1 where a row is one; None: every row is.
    """

    columns: tuple[str, ...] = ("label",)
    late: bool = False
    positive: str | None = None


def read(cursor: Cursor) -> Labels:
    return Labels(cursor.columns("a column"), cursor.accept("LATE"))


def inherited(labels: Labels, stream: bool) -> Labels:
    return replace(labels, positive=None) if stream else labels


def shown(labels: Labels) -> Iterator[tuple[str, str | None]]:
    yield "label", ", ".join(labels.columns) + (" late" if labels.late else "") or labels.positive


LABEL = Clause(
    "LABEL",
    "{column [LATE] | column, column [, ...]}",
    "The columns to predict; by default the column named `label`. For a classifier they hold 0 or 1, never NULL. "
    "`two_tower` and `tdm` need none: with one, rows with 1 are learned, and rows with 0 are left out. `sequence` without one "
    "learns which item comes next. `LATE`: an example "
    "comes with 0 when it is shown, and once more with 1 when it is clicked: see [late labels](late_labels.md).",
    read,
    Labels(),
    same,
    as_record,
    record_of(Labels),
    inherited,
    shown,
)
