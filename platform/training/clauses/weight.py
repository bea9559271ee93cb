"""WEIGHT: how much examples count, by a column, by their age, or by both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...engines.spark_sql.cursor import Cursor
from ...errors import StatementError, Subject
from ...input.numbers import floats, seconds
from ...operators.duration import duration_seconds
from ...options import option, parse
from .base import Clause, Values, as_record, record_of, same
from .column_roles import TIME
from .publish import PUBLISH

BY_AGE = "(weight by age)"  # the column, where the query has none
HALF_LIFE = Subject("WEIGHT", option="half_life")


@dataclass(frozen=True)
class AgeOptions:
    """Options of BY AGE."""

    half_life: str = option("7 days", "the age at which an example weighs half")


@dataclass(frozen=True)
class Weight:
    """WEIGHT [`column`] [BY AGE (half_life = `half_life`)].

    Attributes:
        newest: the newest TIME of the rows that are learned, in seconds since 1970, where ages begin.
    """

    column: str | None = None
    half_life: str | None = None
    newest: int = 0

    @property
    def name(self) -> str | None:
        """The column that examples are weighted by."""
        return self.column if self.half_life is None else self.column or BY_AGE

    @property
    def text(self) -> str | None:
        """The clause without its first word; None without a clause."""
        age = None if self.half_life is None else f"BY AGE (half_life = '{self.half_life}')"
        return " ".join(part for part in (self.column, age) if part) or None


@dataclass(frozen=True)
class AgedWeights:
    """Weights of examples by their age, times those of a column; see ComputedColumn."""

    weight: Weight
    time: str

    @property
    def field(self) -> pa.Field:
        return pa.field(self.weight.name, pa.float64())

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.time, *([self.weight.column] if self.weight.column else []))

    def column(self, table: pa.Table) -> pa.Array:
        """Return 2 to the power of minus age over half-life, 1 where the time is NULL, times the column."""
        assert self.weight.half_life is not None
        times = seconds(table.column(0), self.time).astype(np.float64)
        ages = np.where(times > 0, np.maximum(self.weight.newest - times, 0), 0)
        weights = np.exp2(-ages / duration_seconds(self.weight.half_life, HALF_LIFE))
        return pa.array(weights * floats(table.column(1)) if self.weight.column else weights)


def read(cursor: Cursor) -> Weight:
    column = None if cursor.peek("BY", "AGE") else cursor.identifier("a column, or BY AGE")
    if not cursor.accept("BY", "AGE"):
        return Weight(column)
    given = cursor.options() if cursor.peek("(") else {}
    half_life = parse(AgeOptions, given, Subject("WEIGHT")).half_life
    try:
        duration_seconds(half_life, HALF_LIFE)
    except StatementError as error:
        raise error.at(given["half_life"].position) from None
    return Weight(column, half_life)


def inherited(weight: Weight, stream: bool) -> Weight:
    return replace(weight, newest=0)


def shown(weight: Weight) -> Iterator[tuple[str, str | None]]:
    yield "weight", weight.text


def computes(weight: Weight, values: Values) -> AgedWeights | None:
    """Return the weights by age; None where a column alone gives weights.

    Raises:
        StatementError: there are no times, or the training does not know its newest.
    """
    if weight.half_life is None:
        return None
    if (time := TIME.of(values)) is None:
        message = f"{WEIGHT} {weight.text} counts ages from event times. Name their column with TIME, or leave BY AGE out."
        raise StatementError(message, subject=WEIGHT.subject)
    if PUBLISH.of(values) is not None:
        raise StatementError(
            f"{WEIGHT} {weight.text} counts ages from the newest row, and PUBLISH EVERY learns rows while newer ones arrive. "
            "Run CONTINUE WITH (until = 'available') every so often, or TRAIN without BY AGE.",
            subject=WEIGHT.subject,
        )
    return AgedWeights(weight, time)


def fit(weight: Weight, tables: Iterable[pa.Table]) -> Weight:
    newest = (int(seconds(table.column(0), str(TIME)).max(initial=0)) for table in tables)
    return replace(weight, newest=max(newest, default=0))


WEIGHT = Clause(
    "WEIGHT",
    "{column | [column] BY AGE [(half_life = '7 days')]}",
    "A number that multiplies an example's loss. Metrics, counts and scales count every example once. `BY AGE`: an "
    "example that is one half-life older than the newest `TIME` of the rows learned weighs half, one without a time 1; with a "
    "column, both are multiplied.",
    read,
    Weight(),
    same,
    as_record,
    record_of(Weight),
    inherited,
    shown,
    computes,
    fit,
)
