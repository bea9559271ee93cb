"""Render benchmarks/results/*.json into the pages that show them.

Usage: python docs/results.py [--check]

After `<!-- results GROUP -->` a page has the figures of a group, those of one subject in a line, after
`<!-- results GROUP: A | B -->` a table of figures that are named "line: A" and "line: B". The first form leaves out what the
other one shows on the same page. What stood there before is replaced.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- results (\w+)(?:: ([^\n]+?))? -->\n)(?:\n\|[^*].*?\n\n\*[^\n]*\*\n)?", re.DOTALL)
Row = Mapping[str, Any]


def number(value: float) -> str:
    """Write a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def measured(row: Row, unit: bool = True) -> str:
    """Return a cell: the number with its unit, and the spread of several runs."""
    text = number(row["value"])
    if unit and row["unit"]:
        text += "" if row["unit"] == "x" else f" {row['unit']}"
    if row["low"] is not None:
        text += f" ({number(row['low'])} to {number(row['high'])})"
    return text


def verdict(row: Row) -> str:
    """Return the target and whether it is met."""
    if not row["target"]:
        return ""
    sign, bound = row["target"].split()
    met = row["value"] >= float(bound) if sign == ">=" else row["value"] <= float(bound)
    return f" [{'at least' if sign == '>=' else 'at most'} {number(float(bound))}: {'met' if met else '**missed**'}]"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)) + "\n"


def pivoted(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return a table of figures named "line: column"."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        line, _, column = row["what"].rpartition(": ")
        if column in columns:
            found.setdefault(line, {})[column] = measured(row, unit=False)
    units = {row["what"].rpartition(": ")[2]: row["unit"] for row in rows}
    heads = [f"{column} ({units[column]})" if units.get(column) not in ("", "x", None) else column for column in columns]
    return table(["", *heads], ([line, *(cells.get(column, "") for column in columns)] for line, cells in found.items()))


def listed(rows: Sequence[Row], without: set[str]) -> str:
    """Return a table with a line for all figures named "line: ...", but for those of some columns."""
    found: dict[str, list[str]] = {}
    for row in rows:
        line, _, name = row["what"].rpartition(": ") if ": " in row["what"] else (row["what"], "", "")
        if name not in without or not name:
            found.setdefault(line, []).append((f"{name}: " if name else "") + measured(row) + verdict(row))
    return table(["", "measured [target]"], ([line, "; ".join(cells)] for line, cells in found.items()))


def footer(found: Mapping[str, Any]) -> str:
    """Return where and when figures were measured, and the command."""
    machine, dates = found["machine"], sorted({row.get("date", found["date"]) for row in found["rows"]})
    load = "" if machine["load"] is None else f", load {machine['load']}"
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    return f"\n*{machine['cpu']}, {machine['cores']} cores{load}, {days}: `{found['command']}`*\n"


def rendered(page: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a page with its tables.

    Raises:
        KeyError: a marker names a group that has no results.
    """
    shown: dict[str, set[str]] = {}
    for _, group, columns in MARKED.findall(page):
        shown.setdefault(group, set()).update(columns.split(" | ") if columns else ())

    def filled(marked: re.Match[str]) -> str:
        begin, group, columns = marked.groups()
        found = results[group]
        rows = pivoted(found["rows"], columns.split(" | ")) if columns else listed(found["rows"], shown[group])
        return f"{begin}\n{rows}{footer(found)}"

    return MARKED.sub(filled, page)


def main(check: bool) -> None:
    """Rewrite the pages, or end with an error that names those that do not show the results."""
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
    differing = []
    for path in sorted(DOCS.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if (wanted := rendered(page, results)) != page:
            differing.append(path.name)
            if not check:
                path.write_text(wanted, encoding="utf-8")
    if check and differing:
        sys.exit(f"{', '.join(differing)}: not as benchmarks/results has it: run `python docs/results.py`")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
