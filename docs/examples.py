"""Write what the statements of a page answer under each of its blocks of SQL, those that have an output there already.

A block of `sql session=interrupted` runs in a session that Ctrl-C ends, one of `sql session=resident` in one that stays until a
later block stops it.

Usage: python docs/examples.py PAGE...
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pyarrow as pa

import xpsql
from xpsql.platform.display import FEW_COLUMNS, is_listed, more, paragraphs, text_table
from xpsql.platform.progress import SilentReporter

SHOWN = re.compile(
    r"^```sql(?: session=(?P<session>\w+))?\n(?P<sql>.*?)^```\n(?:\n```\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)
ROWS, WIDTH = 12, 110
NOON = datetime(2026, 1, 31, 12)
OF_THE_RUN = {"created": NOON, "published": NOON, "seconds": 1.5}
"""Columns whose values are others in each run, and what pages show in their place."""
PATIENCE_SECONDS = 60


class Interrupting(SilentReporter):
    """Interrupts a training as Ctrl-C does, once it has learned some examples."""

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        raise KeyboardInterrupt


def interrupted(folder: str, sql: str) -> None:
    """Run statements that are interrupted."""
    with xpsql.connect(folder, reporter=Interrupting()) as session, suppress(KeyboardInterrupt):
        session.sql(sql)
        raise AssertionError(f"This ended before it could be interrupted: {sql}")


def staying(folder: str, sql: str) -> Thread:
    """Run statements in a session of their own, until another one stops them."""

    def stay() -> None:
        with xpsql.connect(folder, reporter=SilentReporter()) as session:
            session.sql(sql)

    thread = Thread(target=stay)
    thread.start()
    return thread


def tables_of(session: xpsql.Session, sql: str, resident: Thread | None) -> list[pa.Table]:
    """Return what statements answer; those that stop a resident session are tried until it has begun."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return [result.table for result in session.run(sql, {}, None) if result.table is not None]
        except xpsql.XpsqlError:
            if resident is None or not resident.is_alive() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def answered(page: str, found: Callable[[str, str], None]) -> str:
    """Return a page with what its statements answer, in order; `found` gets what a block shows and answers."""
    residents: list[Thread] = []
    with TemporaryDirectory() as folder, xpsql.connect(folder, reporter=SilentReporter()) as session:

        def run(block: re.Match[str]) -> str:
            if block["session"] == "interrupted":
                interrupted(folder, block["sql"])
            elif block["session"] == "resident":
                residents.append(staying(folder, block["sql"]))
            if block["session"] is not None:
                return block[0]
            tables = tables_of(session, block["sql"], residents[-1] if residents else None)
            if block["output"] is None:
                return block[0]
            output = f"{drawn(without_times(tables[-1]))}\n"
            found(block["output"], output)
            return f"```sql\n{block['sql']}```\n\n```\n{output}```\n"

        return SHOWN.sub(run, page)


def without_times(table: pa.Table) -> pa.Table:
    """Return a table with the same times in each run."""
    for name in OF_THE_RUN.keys() & {*table.column_names}:
        column = pa.array([OF_THE_RUN[name]] * table.num_rows, table.schema.field(name).type)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def drawn(table: pa.Table) -> str:
    """Return the first rows as a page shows them: rows of many columns that would be too wide are paragraphs."""
    text = text_table(table, ROWS)
    if table.num_columns <= FEW_COLUMNS or not is_listed(table) or len(text.split("\n")[1]) <= WIDTH:
        return text
    return "\n".join(line for line in (paragraphs(table.slice(0, ROWS), WIDTH).strip(), more(table, ROWS)) if line)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(answered(path.read_text(encoding="utf-8"), lambda shown, output: None), encoding="utf-8")
