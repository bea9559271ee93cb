"""Rooms and floors: which folders may import which. `python -m tests.rooms` draws them in docs/architecture.md.

A folder is a room, and a room stands on a floor. It imports from lower floors, from the room that it is in, whose contract it
keeps, and from the rooms in it. What else a room needs of its own floor or a higher one is an exception with a reason.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TREES = ("platform", "algorithms", "warehouse", "xpsql/testing")
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: drawn by python -m tests.rooms -->\n", "<!-- end of rooms -->\n"
DOORS = 4

FLOORS: tuple[tuple[str, ...], ...] = (
    ("platform",),
    ("platform/ps/rows",),
    (
        "warehouse",
        "warehouse/chains",
        "warehouse/trainings",
        "platform/operators",
        "platform/operators/lifetimes",
        "algorithms/blocks",
    ),
    ("platform/functions",),
    (
        "algorithms",
        "algorithms/augments",
        "algorithms/layers",
        "platform/ps",
        "platform/ps/compiled",
        "platform/ps/networks",
        "platform/ps/transport",
    ),
    ("platform/parts", "platform/udf", "platform/trees", "algorithms/linear", "algorithms/packaged", "algorithms/graphs"),
    ("algorithms/networks", "algorithms/items", "algorithms/bridges", "platform/engines/spark_sql"),
    ("platform/engines", "platform/engines/spark", "platform/engines/duckdb"),
    ("platform/engines/duckdb/translation",),
    ("platform/engines/duckdb/files", "platform/row_programs"),
    ("platform/input/kinds", "platform/input/runs", "platform/histories"),
    ("platform/input", "platform/input/crossed", "platform/input/side"),
    ("platform/input/streams",),
    ("platform/training/metrics", "platform/feature_tables"),
    ("platform/training/clauses",),
    ("platform/training/row_files", "platform/training/profiles", "platform/training/policies"),
    ("platform/training/checkpoints", "platform/training/preparation"),
    ("platform/training/online",),
    ("platform/training/tasks",),
    ("platform/training/solved", "platform/training/resident", "platform/training/provenance"),
    ("platform/training/packaged",),
    ("platform/training/graphs",),
    ("platform/training", "platform/training/planning"),
    ("platform/training/tuning", "platform/scoring", "platform/images", "xpsql/testing"),
    ("platform/decisions", "platform/graphs", "platform/monitoring", "platform/provenance", "platform/training/auto"),
    ("platform/models", "platform/serving", "platform/serving/computed"),
    ("platform/portable", "platform/portable/xpsql_reader"),
    ("platform/adapters",),
    ("platform/sql", "platform/sql/statements", "platform/sql/functions"),
    ("platform/session",),
    ("platform/parameters",),
    ("platform/cli",),
    ("platform/notebook", "platform/adapters/dbt"),
)
"""The lowest first. A file of `platform` that is a room of its own: parts, session, notebook."""

EXCEPTIONS = {
    (
        "platform/training/online",
        "platform/training/tasks",
    ): "the strategy of learning batch by batch also runs on an engine's tasks, which run its worker.",
}
"""(room, the room that it imports though that is on no lower floor): why."""

FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ROOMS = tuple(FLOOR)


def modules() -> dict[tuple[str, ...], Path]:
    """Return every module of the product by its name."""
    found = {}
    for tree in TREES:
        for path in sorted((ROOT / tree).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if parts[0] == "xpsql" else ("xpsql", *parts)
            found[parts[:-1] if parts[-1] == "__init__" else parts] = path
    return found


MODULES = modules()


def room_of(path: Path) -> str:
    """Return the room that a file is in."""
    own = path.relative_to(ROOT).with_suffix("").as_posix()
    return own if own in FLOOR else path.parent.relative_to(ROOT).as_posix()


def imports(name: tuple[str, ...], path: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the modules of the product that a file imports, for types alone as well, each with the name that it takes."""
    package = name if path.name == "__init__.py" else name[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = tuple(node.module.split(".")) if node.module else ()
        base = module if not node.level else (*package[: len(package) - node.level + 1], *module)
        for alias in node.names:
            target = (*base, alias.name) if (*base, alias.name) in MODULES else base
            if target in MODULES and target != name:
                yield target, "" if target != base else alias.name


IMPORTS = {name: list(imports(name, path)) for name, path in MODULES.items()}
ARROWS = {name: {target for target, _ in found} for name, found in IMPORTS.items()}


def may_import(room: str, other: str) -> bool:
    """Return whether the floors allow that a room imports another."""
    related = Path(other) == Path(room).parent or Path(room) == Path(other).parent
    return room == other or FLOOR[other] < FLOOR[room] or related


def purpose(room: str) -> str:
    """Return what a room is for: the first sentence of its docstring."""
    if room == "platform":
        return "What all rooms use: errors, options, results, progress, display, cores, paths, types of Spark."
    path = ROOT / f"{room}.py" if (ROOT / f"{room}.py").exists() else ROOT / room / "__init__.py"
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split())
    return text if text.endswith(".") else f"{text}."


def door(room: str) -> list[str]:
    """Return the functions and classes of a room that most files of other rooms import."""
    taken = Counter(
        what
        for name, found in IMPORTS.items()
        for target, what in found
        if what[:1].isalpha() and not what.isupper() and room_of(MODULES[target]) == room and room_of(MODULES[name]) != room
    )
    return [name for name, _ in sorted(taken.items(), key=lambda pair: (-pair[1], pair[0]))[:DOORS]]


def table() -> str:
    """Return the rooms as a table of Markdown, the highest floor first."""
    lines = ["| floor | room | what it is for | its door |", "|---|---|---|---|"]
    for room in sorted(ROOMS, key=lambda room: -FLOOR[room]):
        names = ", ".join(f"`{name}`" for name in door(room))
        lines.append(f"| {FLOOR[room]} | `{room}` | {purpose(room)} | {names} |")
    lines += [f"\n`{room}` imports `{other}`: {why}" for (room, other), why in EXCEPTIONS.items()]
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """Return the page with the table of now."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
