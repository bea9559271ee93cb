"""Tables for people: aligned text, HTML for notebooks, and a drawn table for terminals."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from datetime import datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from rich.table import Table

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
LISTED = b"xpsql.listed"
"""Metadata of a table that is read whole, as what EXPLAIN and DESCRIBE answer: how many of its rows are its summary."""
FEW_COLUMNS = 3
"""As many columns of a listing are folded side by side on a narrow terminal."""
FULL_FROM, FULL_TO = 1e5, 1e15  # between these, six digits would hide some of a whole number, or its cents


def plural(noun: str, count: int) -> str:
    """Return a noun as it stands after a count."""
    return noun if count == 1 else f"{noun}s"


def size_text(size: float) -> str:
    """Return bytes in the unit that suits them."""
    if size < 2**20:
        return f"{size / 2**10:,.0f} KiB"
    return f"{size / 2**20:,.{1 if size < 10 * 2**20 else 0}f} MiB" if size < 10 * 2**30 else f"{size / 2**30:,.1f} GiB"


def listed(table: pa.Table, summary: int) -> pa.Table:
    """Return a table that is shown whole, its first rows, the summary, apart from the others; see is_listed."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), LISTED: str(summary)})


def is_listed(table: pa.Table) -> bool:
    """Return whether a table is shown whole, its long texts folded where a terminal is narrower."""
    return LISTED in (table.schema.metadata or {})


def summary_rows(table: pa.Table) -> int:
    """Return how many rows stand apart as a summary; 0: none, or all."""
    count = int((table.schema.metadata or {}).get(LISTED, 0))
    return count if count < table.num_rows else 0


def cell(value: Any) -> str:
    """Return a value as people read it: milliseconds of a time in UTC, NULL, one line for anything; the text NULL is quoted.

    A float has six digits, or, from 100,000 on, the fifteen that it holds exactly.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}" if FULL_FROM <= abs(value) < FULL_TO else f"{value:.6g}"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "milliseconds" if value.microsecond else "seconds")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {cell(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(cell, value)) + "]"
    return "'NULL'" if value == "NULL" else one_line(str(value))


def one_line(text: str) -> str:
    """Return a text with a space for each line break, tab and control character."""
    return CONTROL.sub(" ", text)


def values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values as Python objects; a map, within others too, is a dict."""
    listed: list[Any] = column.to_pylist()
    return [with_dicts(value, column.type) for value in listed] if pa.types.is_nested(column.type) else listed


def with_dicts(value: Any, kind: pa.DataType) -> Any:
    """Return a value of Arrow's with a dict for each map; keys that are lists or structs are text there."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        key = cell if pa.types.is_nested(kind.key_type) else lambda key: key
        return {key(with_dicts(k, kind.key_type)): with_dicts(v, kind.item_type) for k, v in value}
    if pa.types.is_struct(kind):
        return {field.name: with_dicts(value[field.name], field.type) for field in kind}
    return [with_dicts(item, kind.value_type) for item in value]


def cells(table: pa.Table, rows: int) -> list[list[str]]:
    """Return the columns of the first rows as text."""
    return [[cell(value) for value in values(column)] for column in table.slice(0, rows).columns]


def is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def more(table: pa.Table, rows: int) -> str:
    """Return the line that tells of the rows left out; empty if none are."""
    hidden = table.num_rows - rows
    return "" if hidden <= 0 else f"... {hidden:,} more row{'s' if hidden > 1 else ''}"


def text_table(table: pa.Table, rows: int) -> str:
    """Return the first rows as aligned plain text, numbers to the right; a summary is a block by itself."""
    shown = table.slice(0, rows)
    first = summary_rows(shown)
    lines = aligned(shown.slice(0, first or rows), rows)
    lines += ["", *aligned(shown.slice(first), rows)[2:]] if first else []
    return "\n".join([*lines, more(table, rows)] if table.num_rows > rows else lines)


def aligned(table: pa.Table, rows: int) -> list[str]:
    """Return the lines of a table: names, a rule, and the rows."""
    columns = []
    for field, column in zip(table.schema, cells(table, rows), strict=True):
        named = [one_line(field.name), *column]
        width = max(map(width_of, named))
        right = is_numeric(field.type)
        texts = [" " * (width - width_of(text)) + text if right else text + " " * (width - width_of(text)) for text in named]
        columns.append([texts[0], "-" * width, *texts[1:]])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def line_table(table: pa.Table, rows: int) -> str:
    """Return the first rows as a block each, with a line for each column: for rows wider than a screen."""
    names = [one_line(name) for name in table.column_names]
    width = max(map(width_of, names), default=0)
    blocks = []
    for number, row in enumerate(zip(*cells(table, rows), strict=True), 1):
        lines = (f"{name}{' ' * (width - width_of(name))} | {value}" for name, value in zip(names, row, strict=True))
        blocks.append("\n".join([f"-[ row {number} ]-", *lines]))
    return "\n".join([*blocks, more(table, rows)] if table.num_rows > rows else blocks or ["no rows"])


def width_of(text: str) -> int:
    """Return the columns of a terminal that a text takes; two for a wide character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def html_table(table: pa.Table, rows: int) -> str:
    """Return the first rows as an HTML table; notebooks put all to the right, where only numbers belong."""
    sides = ["" if is_numeric(field.type) else ' style="text-align: left"' for field in table.schema]

    def row(tag: str, texts: Iterable[str]) -> str:
        return (
            "<tr>"
            + "".join(f"<{tag}{side}>{html.escape(text)}</{tag}>" for side, text in zip(sides, texts, strict=True))
            + "</tr>"
        )

    lines = [row("td", texts) for texts in zip(*cells(table, rows), strict=True)]
    first = summary_rows(table.slice(0, rows))
    bodies = [lines[:first], lines[first:]] if first else [lines]
    body = '</tbody><tbody style="border-top: 1px solid">'.join("".join(one) for one in bodies)
    note = more(table, rows)
    foot = f"<p>{note}</p>" if note else ""
    return f"<table><thead>{row('th', table.column_names)}</thead><tbody>{body}</tbody></table>{foot}"


def listing_text(table: pa.Table, width: int) -> str:
    """Return all rows within a width, long texts folded; rows with many columns are paragraphs where they do not fit."""
    from rich.console import Console

    if table.num_columns > FEW_COLUMNS and max(map(width_of, text_table(table, table.num_rows).split("\n"))) > width:
        return paragraphs(table, width)
    console = Console(width=width, color_system=None)  # not every pager knows styles
    with console.capture() as captured:
        console.print(drawn_table(table, table.num_rows, folded=True))
    return captured.get().removesuffix("\n")


def paragraphs(table: pa.Table, width: int) -> str:
    """Return each row as a paragraph: the first column, the others by name, and the last one folded below."""
    names, lines = [one_line(name) for name in table.column_names], [""]
    for first, *others, last in zip(*cells(table, table.num_rows), strict=True):
        told = "; ".join(f"{name} {text}" for name, text in zip(names[1:-1], others, strict=True) if text)
        lines += wrap(f"{first}: {told}", width, subsequent_indent=" " * 4)
        lines += wrap(last, width, initial_indent=" " * 4, subsequent_indent=" " * 4)
    return "\n".join([*lines, ""])


def drawn_table(table: pa.Table, rows: int, folded: bool = False) -> Table:
    """Return the first rows as a table that rich draws, each on one line, or all but the first column folded."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, field in enumerate(table.schema):
        name, whole = Text(one_line(field.name)), not (folded and number)
        drawn.add_column(name, justify="right" if is_numeric(field.type) else "left", no_wrap=whole, overflow="fold")
    first = summary_rows(table.slice(0, rows))
    for number, row in enumerate(zip(*cells(table, rows), strict=True), 1):
        drawn.add_row(*map(Text, row), end_section=number == first)
    return drawn
