"""Writes what was tried into a table of docs/faults.md: `python -m tests.chaos.table 'HEADER' <LINES`.

The table is the one whose header begins so. A row that has the name of one in it takes its place; others come behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def merged(page: str, header: str, rows: Iterable[str]) -> str:
    """Return a page with rows in its table.

    Raises:
        ValueError: the page has not one table with this header, or a row has not as many columns as it.
    """
    lines = page.splitlines()
    begins = [number for number, line in enumerate(lines) if line == f"| {header} |"]
    if len(begins) != 1:
        raise ValueError(f"expected one table with the header {header!r}, got {len(begins)}")
    first = begins[0] + 2
    end = next((number for number in range(first, len(lines)) if not lines[number].startswith("|")), len(lines))
    table = {name_of(line): line for line in lines[first:end]}
    for row in rows:
        if row.count(" | ") != header.count(" | "):
            raise ValueError(f"expected the columns {header!r}, got {row!r}")
        table[name_of(row)] = row
    return "\n".join([*lines[:first], *table.values(), *lines[end:]]) + "\n"


def name_of(row: str) -> str:
    """Return what the first column of a row says."""
    return row.split("|")[1].strip()


if __name__ == "__main__":
    reported = [line.rstrip() for line in sys.stdin if line.startswith("|")]
    PAGE.write_text(merged(PAGE.read_text(encoding="utf-8"), sys.argv[1], reported), encoding="utf-8")
