"""The shell's output on a terminal: columns that fit, a pager for long results, and coloured statements."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

import click
import pyarrow as pa
from pygments.lexers.sql import SqlLexer
from pygments.token import Keyword, Name

from ..display import cells, drawn_table, is_listed, listing_text, more, one_line, width_of
from ..sql.statements import STATEMENTS
from ..training.clauses import CLAUSES

MOST_ROWS = 1000
MOST_WIDTH = 60
GAP = 3
OURS = frozenset(word for name in (*STATEMENTS.names, *CLAUSES.names) for word in name.split()) | {"VERSION", "STREAM", "ML"}


class StatementLexer(SqlLexer):  # type: ignore[misc]
    """SQL with our words."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """Yield the places, kinds and texts of tokens; our words are keywords."""
        for place, kind, value in super().get_tokens_unprocessed(text):
            yield place, Keyword if kind is Name and value.upper() in OURS else kind, value


def shown(text: str, paged: bool) -> None:
    """Write a text; by the pager of the terminal where it is longer than the screen, and one wants that."""
    if paged and sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines - 1:
        click.echo_via_pager(text)
    else:
        click.echo(text)


def fitted(table: pa.Table, width: int) -> str:
    """Return the first rows, drawn, with the columns that fit a width, and what is left out."""
    from rich.console import Console

    if is_listed(table):
        return listing_text(table, max(width, 20))
    part, hidden = elided(table.slice(0, MOST_ROWS), width)
    console = Console(width=max(width, 20), color_system=None)  # not every pager knows styles
    with console.capture() as captured:
        console.print(drawn_table(part, MOST_ROWS))
    notes = [more(table, MOST_ROWS)]
    if hidden:
        names = ", ".join(hidden[:5]) + (", ..." if hidden[5:] else "")
        count = f"{len(hidden)} more column{'s' if hidden[1:] else ''}"
        notes.append(clipped(f"... {count} (\\x shows a line for each): {names}", width))
    return captured.get() + "".join(f"{note}\n" for note in notes if note)


def elided(table: pa.Table, width: int) -> tuple[pa.Table, list[str]]:
    """Return the first columns that fit a width, long texts cut, and the names of the others."""
    texts = [[clipped(text, min(MOST_WIDTH, width - 2 * GAP - 1)) for text in column] for column in cells(table, MOST_ROWS)]
    names = [clipped(one_line(name), MOST_WIDTH) for name in table.column_names]
    needed = [max(map(width_of, (name, *column))) + GAP for name, column in zip(names, texts, strict=True)]
    count, room = len(needed), width
    if sum(needed) > room:
        fits = (number for number in range(1, count) if sum(needed[:number]) + 1 + GAP > room)
        count = max(next(fits, count) - 1, 1)
    columns = [pa.array(text) if type_is_cut(text) else column for text, column in zip(texts, table.columns, strict=True)]
    part = pa.table(columns[:count], names=table.column_names[:count]) if count else table
    if count < len(names):
        part = part.append_column("…", pa.array(["…"] * table.num_rows))
    return part, names[count:]


def type_is_cut(texts: list[str]) -> bool:
    return any(text.endswith("…") for text in texts)


def clipped(text: str, width: int) -> str:
    """Return a text of at most some columns of a terminal."""
    if width_of(text) <= width:
        return text
    end = max(width - 1, 1)
    while end > 1 and width_of(text[:end]) > width - 1:
        end -= 1
    return f"{text[:end]}…"
