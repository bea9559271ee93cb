"""Write what the statements of a page answer under each of its blocks of SQL, those that have an output there already.

Usage: python docs/examples.py PAGE...
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import xpsql
from xpsql.platform.display import text_table
from xpsql.platform.progress import SilentReporter

SHOWN = re.compile(r"^```sql\n(?P<sql>.*?)^```\n(?:\n```\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
ROWS = 12


def answered(page: str, found: Callable[[str, str], None]) -> str:
    """Return a page with what its statements answer, in order; `found` gets what a block shows and answers."""
    with TemporaryDirectory() as folder, xpsql.connect(folder, reporter=SilentReporter()) as session:

        def run(block: re.Match[str]) -> str:
            tables = [result.table for result in session.run(block["sql"], {}, None) if result.table is not None]
            if block["output"] is None:
                return block[0]
            output = f"{text_table(tables[-1], ROWS)}\n"
            found(block["output"], output)
            return f"```sql\n{block['sql']}```\n\n```\n{output}```\n"

        return SHOWN.sub(run, page)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(answered(path.read_text(encoding="utf-8"), lambda shown, output: None), encoding="utf-8")
