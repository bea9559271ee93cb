"""BUDGET: what USING auto may take, in time or trials, and in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...engines.spark_sql.cursor import Cursor
from ...errors import StatementError
from .base import Clause, as_record, record_of, same

TRIALS = "trial"
SECONDS = {"second": 1, "minute": 60, "hour": 3600}
BYTES = {"mb": 1 << 20, "gb": 1 << 30}
AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", re.IGNORECASE)
FORM = "a positive number of seconds, minutes, hours or trials, such as 20 MINUTES"
MEMORY = "memory in MB or GB, such as 4 GB"


@dataclass(frozen=True)
class Budget:
    """What a search may take, and what it found.

    Attributes:
        seconds: of the whole statement, by the clock; None: a number of trials.
        trials: the first one, of the defaults, included; None: a time.
        memory_bytes: of the rows of a model; None: half of the machine's.
        text: as it was written.
        statement: the whole statement that it was part of.
        found: the trials, once they are over, as ML.TRIAL_INFO shows them.
    """

    seconds: float | None
    trials: int | None
    memory_bytes: int | None
    text: str
    statement: str = ""
    found: tuple[Mapping[str, Any], ...] = ()


def read(cursor: Cursor) -> Budget:
    """Read `n {SECONDS | MINUTES | HOURS | TRIALS} [, n {MB | GB}]`, each also as a string."""
    first = cursor.index
    number, unit = read_amount(cursor, (*SECONDS, TRIALS), FORM)
    memory = None
    if cursor.accept(","):
        size, of = read_amount(cursor, tuple(BYTES), MEMORY)
        memory = int(size * BYTES[of])
    text = cursor.span(first).text
    if unit == TRIALS:
        return Budget(None, int(number), memory, text)
    return Budget(number * SECONDS[unit], None, memory, text)


def read_amount(cursor: Cursor, units: tuple[str, ...], form: str) -> tuple[float, str]:
    """Read a positive number and one of some units, singular or plural."""
    first = cursor.index
    if cursor.next_kind == "string":
        written = cursor.string(form)
    elif cursor.next_kind == "number":
        written = f"{cursor.number()} {cursor.identifier(form)}"
    else:
        raise cursor.expected(form)
    match = AMOUNT.fullmatch(written)
    unit = match[2].lower() if match is not None else ""
    whole = unit != TRIALS or (match is not None and match[1].isdigit())
    if match is None or unit not in units or not float(match[1]) or not whole:
        raise StatementError(f"BUDGET expects {form}, got {written!r}.", cursor.span(first))
    return float(match[1]), unit


def shown(budget: Budget | None) -> Iterator[tuple[str, str | None]]:
    if budget is not None:
        yield "budget", budget.text


BUDGET: Clause[Budget, Budget | None] = Clause(
    "BUDGET",
    "n {SECONDS | MINUTES | HOURS | TRIALS} [, n {MB | GB}]",
    "What `USING auto` may take: time of the whole statement, or a number of trials, which repeats on any machine; and memory "
    "of a model's rows, by default half of the machine's. See [auto.md](auto.md).",
    read,
    None,
    same,
    as_record,
    record_of(Budget),
    shown=shown,
)
