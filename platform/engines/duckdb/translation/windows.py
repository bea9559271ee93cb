"""window(time, length[, slide[, start]]): the windows that a time is in. Those that overlap make several rows of one, and a row
without a time is in none.

Source: Spark's org.apache.spark.sql.catalyst.analysis.TimeWindowing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from ....errors import StatementError
from ...spark_sql.dialect import position_of
from .calls import SparkCall, cast, filled, not_null, number, strict
from .kinds import INSTANT

WINDOW, COLUMN, SLIDES = "window", "xpsql_window", "slides"
SPAN = re.compile(r"(?:interval )?(-?[0-9]+) (microsecond|millisecond|second|minute|hour|day|week)s?")
SPANS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
CLAUSES = ("expressions", "group", "having", "order", "qualify", "windows")
ONE = "{'start': make_timestamptz(:a), 'end': make_timestamptz(:a + :n)}"
LAST = "(epoch_us(:t) - ((epoch_us(:t) - :s) % :m + :m) % :m)"
SEVERAL = (
    "list_transform(list_filter(list_transform(range(:count), lambda xpsql_k: :last - xpsql_k * :m), "
    "lambda xpsql_a: xpsql_a + :n > epoch_us(:t)), "
    "lambda xpsql_a: {'start': make_timestamptz(xpsql_a), 'end': make_timestamptz(xpsql_a + :n)})"
)


class WindowSpan(NamedTuple):
    """The windows of a call, in microseconds: how long each is, how far they are apart, and where one begins."""

    length: int
    slide: int
    start: int

    @classmethod
    def of(cls, call: exp.Expr) -> WindowSpan:
        """Return the windows of a call.

        Raises:
            StatementError: it takes other arguments, or there are no such windows.
        """
        if not 2 <= len(call.expressions) <= 4:
            raise StatementError(
                "window takes (time, length[, slide[, start]]), such as window(ts, '10 minutes', '5 minutes')."
            )
        length, *others = map(micros, call.expressions[1:])
        slide, start = (*others, *(length, 0)[len(others) :])
        if length <= 0 or not 0 < slide <= length:
            raise StatementError("window takes a length above 0, and windows that slide by as much or less.")
        if abs(start) >= slide:
            raise StatementError("window takes a start that is less than what windows slide by.")
        return cls(length, slide, start)


def micros(node: exp.Expr) -> int:
    """Return a literal length of time in microseconds.

    Raises:
        StatementError: it is none of fixed units.
    """
    text = node.name.strip().lower() if isinstance(node, exp.Literal) and node.is_string else ""
    span = SPAN.fullmatch(text)
    if span is None:
        raise StatementError(f"window takes lengths such as '10 minutes', in units up to weeks, got {node.sql('spark')}.")
    return int(span[1]) * SPANS[span[2]]


def place_windows(select: exp.Select) -> None:
    """Make the rows of a SELECT those of the windows that it calls for: one for each window that the time of a row is in.

    Raises:
        StatementError: it calls for several windows, or its WHERE for some that overlap.
    """
    name_grouped(select)
    calls = [node for clause in CLAUSES for part in parts_of(select, clause) for node in own_calls(part)]
    if not calls:
        return
    first = calls[0]
    if any(node != first for node in calls):
        raise StatementError(
            "A SELECT takes one window, whose rows it has. Compute the other in a SELECT around it.", position_of(calls[-1])
        )
    try:
        span = WindowSpan.of(first)
    except StatementError as error:
        raise StatementError(error.message, position_of(first)) from error
    if span.slide == span.length:
        select.where(not_null(first.expressions[0].copy()), copy=False)
        return
    made = first.copy()
    made.meta[SLIDES] = True
    for node in calls:
        node.replace(exp.column(COLUMN, quoted=True))
    for star in select.expressions:
        if isinstance(star, exp.Star):
            star.set("except_", [*(star.args.get("except_") or []), exp.column(COLUMN, quoted=True)])
    alias = exp.TableAlias(this=exp.to_identifier("xpsql_windows"), columns=[exp.to_identifier(COLUMN, quoted=True)])
    select.append("laterals", exp.Lateral(this=exp.Anonymous(this="explode", expressions=[made]), view=True, alias=alias))


def name_grouped(select: exp.Select) -> None:
    """Put the window that a SELECT groups by in place of its name, `window` or `window.start`, in the other clauses."""
    grouped = next((node for part in parts_of(select, "group") for node in own_calls(part)), None)
    if grouped is None:
        return
    for clause in ("expressions", "having", "order"):
        for part in parts_of(select, clause):
            for column in [node for node in part.walk(prune=is_query) if isinstance(node, exp.Column)]:
                names = [name.name.lower() for name in column.parts]
                if names[0] == WINDOW and len(names) <= 2:
                    call = grouped.copy()
                    column.replace(call if len(names) == 1 else exp.Dot(this=call, expression=column.this.copy()))


def is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def parts_of(select: exp.Select, clause: str) -> list[exp.Expr]:
    found = select.args.get(clause) or []
    return list(found) if isinstance(found, list) else [found]


def own_calls(node: exp.Expr) -> Iterator[exp.Anonymous]:
    """Yield the calls of window in an expression, but not those of queries in it."""
    for found in node.walk(prune=is_query):
        if isinstance(found, exp.Anonymous) and found.name.lower() == WINDOW:
            yield found


def window(of: SparkCall) -> exp.Expr:
    """Return the window that a time is in, or the list of all where they overlap.

    Raises:
        StatementError: see WindowSpan; or windows that overlap are called for where no rows are made.
    """
    span, time = WindowSpan.of(of.node), of.arguments[0]
    kind = of.typer.type_of(time)
    moment = time if kind is not None and kind.id == INSTANT else cast(time, "TIMESTAMPTZ")
    own = {"t": moment, "n": number(span.length), "m": number(span.slide)}
    last = filled(LAST, **own, s=exp.Paren(this=number(span.start)))
    if span.slide == span.length:
        return strict(filled(ONE, a=last, n=own["n"]), [moment])
    if not of.node.meta.get(SLIDES):
        raise StatementError(
            "Windows that overlap make rows, so they belong in SELECT and GROUP BY. Filter them in a SELECT around it."
        )
    return filled(SEVERAL, **own, last=last, count=number(-(-span.length // span.slide)))
