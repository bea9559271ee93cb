"""The section of a report about given rows: versions measured, and compared, on the same rows."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .plots import Trained

if TYPE_CHECKING:
    from ..session import Session

TITLE, ALONE = "On given rows", "Metrics of the rows that the query returns."
PAIRED = (
    "The same rows scored by each, and the difference from the first with its interval, of 95 % of 1,000 bootstrap samples of "
    "rows: if it contains 0, these rows do not show which one is better."
)


def on_rows(session: Session, shown: Sequence[Trained], query: str) -> str:
    """Return the section of a report about the rows of a query.

    Raises:
        StatementError: the query cannot run, or lacks a column.
        DataError: it returns no rows with labels.
    """
    first, *others = shown
    if not others:
        (row, *_) = session.sql(f"SELECT * FROM ML.EVALUATE({named(first)}, ({query}))").arrow().to_pylist()
        lines = [[name, said(value)] for name, value in row.items() if value is not None and name != "measured_on"]
        return section(ALONE, ["metric", first.name], lines, query)
    lines = [line for other in others for line in differences(session, first, other, query)]
    return section(PAIRED, ["metric", "", "value", f"{first.name}", "difference", "low", "high", "examples"], lines, query)


def differences(session: Session, first: Trained, other: Trained, query: str) -> Iterator[list[str]]:
    """Yield what ML.COMPARE says of a version beside the first one, a line for each metric."""
    found = session.sql(f"SELECT * FROM ML.COMPARE({named(other)}, {named(first)}, ({query}))").arrow().to_pylist()
    for row in found:
        metric = f"{row['metric']}({row['label']})" if "label" in row else row["metric"]
        values = (row[name] for name in ("model_value", "other_value", "difference", "low", "high", "examples"))
        yield [metric, other.name, *map(said, values)]


def named(one: Trained) -> str:
    return f"MODEL `{one.manifest.model}` VERSION {one.version.number}"


def said(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)


def section(text: str, head: Sequence[str], lines: Sequence[Sequence[str]], query: str) -> str:
    """Return a section with a table."""
    rows = [row("th", head), *(row("td", line) for line in lines)]
    drawn = f'<div class="wide"><table>{"".join(rows)}</table></div><pre>{html.escape(query)}</pre>'
    return f"<section><h2>{TITLE}</h2><p>{html.escape(text)}</p>{drawn}</section>"


def row(tag: str, cells: Sequence[str]) -> str:
    found = (
        f"<{tag}{' class=' + chr(34) + 'number' + chr(34) if at else ''}>{html.escape(c)}</{tag}>" for at, c in enumerate(cells)
    )
    return f"<tr>{''.join(found)}</tr>"
