"""Output formats for rows on stdout; a new format is a function and a line in FORMATS."""

from __future__ import annotations

import base64
import csv
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import click
import pyarrow as pa

from ..display import drawn_table, is_listed, listing_text, more, text_table, values

SHOWN_ROWS = 100
CHUNK_ROWS = 10_000


def write_table(table: pa.Table) -> None:
    """Write the first rows as a table: drawn on a terminal that is wide enough for it, plain text elsewhere."""
    if not sys.stdout.isatty():
        click.echo(text_table(table, len(table) if is_listed(table) else SHOWN_ROWS))
        return
    from rich.console import Console

    console = Console()
    if is_listed(table):
        click.echo(listing_text(table, console.width))
        return
    drawn = drawn_table(table, SHOWN_ROWS)
    if console.measure(drawn, options=console.options.update(max_width=sys.maxsize)).maximum > console.width:
        click.echo(f"\n{text_table(table, SHOWN_ROWS)}\n")
        return
    console.print(drawn)
    if note := more(table, SHOWN_ROWS):
        click.echo(f"{note}\n")


def separate(format: str) -> None:
    """Write an empty line between two results that people read; results on a terminal bring their own."""
    if format == "table" and not sys.stdout.isatty():
        click.echo()


def records(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Give the rows, making Python objects of a few at a time."""
    for start in range(0, table.num_rows, CHUNK_ROWS):
        yield from zip(*[values(column) for column in table.slice(start, CHUNK_ROWS).columns], strict=True)


def write_json(table: pa.Table) -> None:
    """Write one JSON object per line."""
    for record in records(table):
        named = {name: json_value(value) for name, value in zip(table.column_names, record, strict=True)}
        click.echo(json.dumps(named, ensure_ascii=False, allow_nan=False, default=str))


def json_value(value: Any) -> Any:
    """Return a value as JSON has it: a decimal is a number, NaN and infinities are null, bytes are base64."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return value


def write_csv(table: pa.Table) -> None:
    """Write comma-separated values with a header; NULL is empty, bytes are base64, lists and maps are JSON."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows([csv_value(value) for value in record] for record in records(table))
    sys.stdout.flush()


def csv_value(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return json_value(value)
    return json.dumps(json_value(value), ensure_ascii=False, default=str) if isinstance(value, list | tuple | dict) else value


def write_arrow(table: pa.Table) -> None:
    """Write an Arrow IPC stream; several statements write several, one after the other."""
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table)
    sys.stdout.flush()


FORMATS: Mapping[str, Callable[[pa.Table], None]] = {
    "table": write_table,
    "json": write_json,
    "csv": write_csv,
    "arrow": write_arrow,
}
