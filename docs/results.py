"""Write docs/figures.md from docs/_figures.md, benchmarks/results/*.json and the tables of docs/faults.md.

Usage: python docs/results.py [--check]

A line `GROUP | FIGURE | PEER'S` between `<!-- rows -->` and `<!-- end -->` becomes a row of a table. PEER'S names a ratio to a
peer, or a peer's figure, from which the ratio is computed. `<!-- matrix GROUP: NAME -->` becomes a table of the figures
"column, line: NAME".
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
TEMPLATE, PAGE, FAULTS = DOCS / "_figures.md", DOCS / "figures.md", DOCS / "faults.md"
ROWS = re.compile(r"<!-- rows -->\n(.*?)<!-- end -->\n", re.DOTALL)
MATRIX = re.compile(r"<!-- matrix (\w+): ([^\n]+) -->\n")
FAULT = re.compile(r"^\|.*\| \d.*\|$", re.MULTILINE)
Row = Mapping[str, Any]


def number(value: float) -> str:
    """Write a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def measured(row: Row) -> str:
    """Return a cell: the number, and the spread of several runs."""
    spread = "" if row["low"] is None else f" ({number(row['low'])} to {number(row['high'])})"
    return number(row["value"]) + spread


def target(row: Row) -> str:
    """Return the target, bold where it is missed."""
    if not row["target"]:
        return ""
    sign, bound = row["target"].split()
    met = row["value"] >= float(bound) if sign == ">=" else row["value"] <= float(bound)
    said = f"{'at least' if sign == '>=' else 'at most'} {number(float(bound))}"
    return said if met else f"**{said}**"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)) + "\n"


class Results:
    """The figures of all groups, by group and name."""

    def __init__(self, documents: Iterable[Mapping[str, Any]]) -> None:
        self.groups = {found["group"]: found for found in documents}
        self.figures = {(group, row["what"]): row for group, found in self.groups.items() for row in found["rows"]}
        self.shown: dict[str, None] = {}

    def line(self, asked: str) -> tuple[str, ...]:
        """Return the row of a line of the template.

        Raises:
            KeyError: there is no such figure.
        """
        group, what, *peers = asked.split(" | ")
        row = self.figures[group, what]
        self.shown[group] = None
        peer, ratio, judged = "", "", row
        for other in (self.figures[group, name] for name in peers):
            peer, judged = other["peer"], other if other["unit"] == "x" else row
            ratio = measured(other) if other["unit"] == "x" else f"{row['value'] / other['value']:.3f}"
        unit = "times" if row["unit"] == "x" else row["unit"]
        return (what, measured(row), unit, peer, ratio, target(judged), f"`{group}`")

    def rows(self, lines: str) -> str:
        return table(("figure", "value", "unit", "peer", "ratio", "target", "run"), map(self.line, lines.splitlines()))

    def matrix(self, group: str, name: str) -> str:
        """Return a table of figures named "column, line: name"."""
        found: dict[str, dict[str, str]] = {}
        for (of, what), row in self.figures.items():
            if of == group and what.endswith(f": {name}"):
                column, _, line = what.removesuffix(f": {name}").partition(", ")
                found.setdefault(line, {})[column] = measured(row)
        columns = list(dict.fromkeys(column for cells in found.values() for column in cells))
        self.shown[group] = None
        return table(
            (name, *columns), ((line, *(cells.get(column, "") for column in columns)) for line, cells in found.items())
        )

    def runs(self) -> str:
        """Return a table of the runs that the page shows: command, machine and date of each."""
        lines = []
        for group in self.shown:
            found = self.groups[group]
            days = sorted({row.get("date", found["date"]) for row in found["rows"]})
            machine = f"{found['machine']['cpu']}, {found['machine']['cores']} cores"
            when = " to ".join(dict.fromkeys((days[0], days[-1])))
            lines.append((f"`{group}`", f"`{found['command']}`", machine, when))
        return table(("run", "command", "machine", "date"), lines)


def faults(page: str) -> str:
    """Return a table of the kinds of faults that were tried, and how often at least."""
    found: dict[tuple[str, str], int] = {}
    for line in FAULT.findall(page):
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        result = next(cell for cell in cells if not cell[0].isdigit())
        times = cells[cells.index(result) - 1]
        if result.startswith("as in"):
            result = "as in the data"
        where = {"embedded": "embedded engine", "topic": "a topic of Kafka"}.get(re.split(r"\W", name)[0], "Spark")
        kind = "calls of the disk that failed" if result.startswith("whole") else f"{where}: kills and cut connections"
        many = re.match(r"([\d,]+)(?: and (\d+))?", times)
        assert many is not None, line
        found[kind, result] = found.get((kind, result), 0) + sum(int(number) for number in many.groups("0"))
    lines = ((kind, number(times), result) for (kind, result), times in found.items())
    return table(("fault", "times, at least", "result"), lines)


def rendered(template: str, results: Results, tried: str) -> str:
    """Return the page of figures."""
    page = ROWS.sub(lambda rows: results.rows(rows[1]), template)
    page = MATRIX.sub(lambda matrix: results.matrix(*matrix.groups()), page)
    return page.replace("<!-- faults -->\n", faults(tried)).replace("<!-- runs -->\n", results.runs())


def main(check: bool) -> None:
    """Rewrite the page, or end with an error where it does not show the results."""
    results = Results(json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json")))
    wanted = rendered(TEMPLATE.read_text(encoding="utf-8"), results, FAULTS.read_text(encoding="utf-8"))
    if not check:
        PAGE.write_text(wanted, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != wanted:
        sys.exit("docs/figures.md does not show benchmarks/results: run `python docs/results.py`")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
