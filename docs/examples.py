"""Write what the statements of a page answer under each of its blocks of SQL, those that have an output there already.

Usage: python docs/examples.py PAGE...
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

import xpsql
from xpsql.platform.display import FEW_COLUMNS, is_listed, more, paragraphs, text_table
from xpsql.platform.progress import SilentReporter

SHOWN = re.compile(r"^```sql\n(?P<sql>.*?)^```\n(?:\n```\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
ROWS, WIDTH = 12, 110


def answered(page: str, found: Callable[[str, str], None]) -> str:
    """Return a page with what its statements answer, in order; `found` gets what a block shows and answers."""
    with TemporaryDirectory() as folder, xpsql.connect(folder, reporter=SilentReporter()) as session:

        def run(block: re.Match[str]) -> str:
            tables = [result.table for result in session.run(block["sql"], {}, None) if result.table is not None]
            if block["output"] is None:
                return block[0]
            output = f"{drawn(tables[-1])}\n"
            found(block["output"], output)
            return f"```sql\n{block['sql']}```\n\n```\n{output}```\n"

        return SHOWN.sub(run, page)


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
