"""Rooms: which folders may import which, so that the plan of docs/architecture.md cannot rot."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TREES = ("platform", "algorithms", "warehouse", "xpsql/testing")
MOST_FILES, MOST_LINES = 25, 350

BASE = ("platform",)
"""Errors, options, results, progress, display, cores, and Spark's types: what everybody may use."""
LIFETIMES = "platform/operators/lifetimes"
ALGORITHMS = (*BASE, "platform/operators", LIFETIMES, "algorithms", "algorithms/augments", "algorithms/layers")
ENGINES = (*BASE, "platform/udf", "platform/engines/spark_sql", "warehouse", "platform/engines")
ALL_ENGINES = ("platform/engines/duckdb", "platform/engines/spark")
COMPILED = "platform/ps/compiled"
PS = ("platform/ps", COMPILED, "platform/ps/transport")
ROWS = "platform/ps/rows"
SIDE = "platform/input/side"
CROSSED = "platform/input/crossed"
TREE = "platform/trees"
KEPT = "warehouse/trainings"
CHAINS = "warehouse/chains"
INPUT = (*ALGORITHMS, *PS, TREE, "warehouse", KEPT, "platform/engines", "platform/input", CROSSED, SIDE)
STREAMS = "platform/input/streams"
LEARNING = ("platform/training", "platform/training/row_files", "platform/training/metrics", "platform/training/checkpoints")
TASKS = "platform/training/tasks"
SCORING = (*INPUT, *LEARNING, TASKS, "platform/training/online", "platform/training/packaged", "platform/scoring")
TUNING = "platform/training/tuning"
MODELS = (*SCORING, "platform/parts", "platform/engines/spark_sql", "platform/models")
RESIDENT = "platform/training/resident"
STRATEGIES = (TASKS, "platform/training/online", "platform/training/solved", "platform/training/packaged")
HISTORIES = "platform/histories"
IMAGES = "platform/images"
SERVING = (*SCORING, HISTORIES, IMAGES, "platform/serving")
PORTABLE = (*SCORING, "platform/models", IMAGES, "platform/portable")
STATEMENTS = (
    *MODELS,
    STREAMS,
    RESIDENT,
    TUNING,
    "platform/serving",
    "platform/portable",
    HISTORIES,
    "platform/sql",
    "platform/sql/statements",
    "platform/sql/functions",
)

ROOMS = {
    "platform": (),
    "platform/operators": (*BASE, LIFETIMES),
    LIFETIMES: (*BASE, "platform/operators"),
    "algorithms": ALGORITHMS,
    "algorithms/augments": (*BASE, "platform/operators", "algorithms"),
    "algorithms/layers": ALGORITHMS,
    "algorithms/linear": ALGORITHMS,
    "algorithms/networks": (*ALGORITHMS, "algorithms/linear"),
    "algorithms/bridges": (*ALGORITHMS, "algorithms/linear"),
    "algorithms/items": (*ALGORITHMS, "algorithms/linear"),
    "algorithms/packaged": ALGORITHMS,
    "platform/parts": (*BASE, "algorithms", "platform/operators"),
    "platform/ps/transport": (*BASE, "platform/ps"),
    ROWS: (*BASE, "platform/ps"),
    COMPILED: (*BASE, "platform/operators", "platform/ps"),
    "platform/ps": (*BASE, "platform/operators", COMPILED, "platform/ps/transport", ROWS),
    TREE: (*BASE, "algorithms", "platform/ps"),
    "platform/udf": (*BASE, "platform/ps"),
    "warehouse": (*BASE, "platform/ps", KEPT, CHAINS),
    KEPT: (*BASE, "warehouse"),
    CHAINS: (*BASE, "platform/ps", "warehouse"),
    "platform/engines/spark_sql": (*BASE, "platform/udf"),
    "platform/engines": (*BASE, "platform/engines/spark_sql", "warehouse", *ALL_ENGINES),  # the tuple of all of them
    "platform/engines/duckdb/translation": (*ENGINES,),
    "platform/engines/duckdb/files": (*ENGINES, "platform/engines/duckdb/translation"),
    "platform/engines/duckdb": (*ENGINES, "platform/engines/duckdb/translation", "platform/engines/duckdb/files"),
    "platform/engines/spark": ENGINES,
    CROSSED: (*BASE, "algorithms", "platform/ps", "platform/input", "platform/input/kinds"),
    "platform/input": (*INPUT, "platform/input/kinds"),
    SIDE: (*INPUT, "platform/input/kinds"),
    "platform/input/kinds": (*BASE, "algorithms", "platform/ps", "platform/input"),
    STREAMS: (*INPUT, "platform/engines/spark_sql", "platform/engines/duckdb", "platform/udf"),
    "platform/training/row_files": (*INPUT, *LEARNING, ROWS),
    "platform/training": (*INPUT, ROWS, STREAMS, *LEARNING, *STRATEGIES, RESIDENT, "platform/parts"),
    "platform/training/metrics": (*INPUT,),
    "platform/training/checkpoints": (*INPUT, *LEARNING),
    "platform/training/online": (*INPUT, *LEARNING, TASKS),
    RESIDENT: (*INPUT, CHAINS, ROWS, STREAMS, *LEARNING, "platform/training/online"),
    TASKS: (*INPUT, *LEARNING, "platform/training/online"),
    "platform/training/solved": (*INPUT, *LEARNING, TASKS, "platform/training/online"),
    "platform/training/packaged": (*INPUT, *LEARNING, TASKS, "platform/training/solved"),
    TUNING: (
        *BASE,
        "algorithms",
        "warehouse",
        "platform/training/checkpoints",
        "platform/engines",
        "platform/parts",
        "platform/training",
        "platform/training/metrics",
    ),
    "platform/scoring": (*SCORING, ROWS),
    IMAGES: (*BASE, "platform/ps", "warehouse", "platform/training/row_files"),
    "platform/models": (*MODELS, CHAINS, "platform/udf"),
    "platform/portable": PORTABLE,
    HISTORIES: (*BASE, "warehouse", "platform/ps", "platform/engines"),
    "platform/serving": (*SERVING, "platform/input/kinds", "platform/udf"),
    "platform/sql": (*STATEMENTS, "platform/udf"),
    "platform/sql/statements": STATEMENTS,
    "platform/sql/functions": STATEMENTS,
    "platform/session": (*BASE, "warehouse", "platform/engines", "platform/engines/spark_sql", "platform/sql", *ALL_ENGINES),
    "platform/notebook": (*BASE, "platform/session", "platform/cli"),
    "platform/cli": (*STATEMENTS, "platform/session", "platform/engines/spark", "algorithms/layers", "algorithms/bridges"),
    "xpsql/testing": (*ALGORITHMS, "platform/training/online", "platform/engines"),
}
"""Room -> the rooms that its files may import, beside their own. A file of its own: parts, session, notebook."""


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
    return own if own in ROOMS else path.parent.relative_to(ROOT).as_posix()


def imported(name: tuple[str, ...], path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the modules of the product that a file imports, wherever it does, for types alone as well."""
    package = name if path.name == "__init__.py" else name[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = tuple(node.module.split(".")) if node.module else ()
        base = module if not node.level else (*package[: len(package) - node.level + 1], *module)
        for alias in node.names:
            target = (*base, alias.name) if (*base, alias.name) in MODULES else base
            if target in MODULES and target != name:
                yield target


ARROWS = {name: set(imported(name, path)) for name, path in MODULES.items()}


@pytest.mark.parametrize("room", sorted({room_of(path) for path in MODULES.values()}))
def test_a_room_imports_only_the_rooms_that_the_plan_allows(room: str) -> None:
    assert room in ROOMS, "name the room in ROOMS, and in docs/architecture.md"
    allowed = {room, *ROOMS[room]}
    wrong = [
        f"{'.'.join(name)} imports {'.'.join(target)}, of {room_of(MODULES[target])}"
        for name, targets in ARROWS.items()
        for target in sorted(targets)
        if room_of(MODULES[name]) == room and room_of(MODULES[target]) not in allowed
    ]
    assert not wrong


def test_others_use_the_translation_by_its_own_names_alone() -> None:
    room = ("xpsql", "platform", "engines", "duckdb", "translation")
    inside = {name for name in MODULES if name[: len(room)] == room}
    assert {name: targets & (inside - {room}) for name, targets in ARROWS.items() if name not in inside} == {
        name: set() for name in ARROWS.keys() - inside
    }


def test_every_room_of_the_plan_is_there_and_no_other() -> None:
    used = {(room_of(MODULES[name]), room_of(MODULES[target])) for name, targets in ARROWS.items() for target in targets}
    rooms = {room for room, _ in used} | {room for _, room in used}
    assert set(ROOMS) == rooms | {"platform"}


def test_no_file_imports_itself_by_way_of_others() -> None:
    done: set[tuple[str, ...]] = set()

    def follow(name: tuple[str, ...], way: tuple[tuple[str, ...], ...]) -> None:
        assert name not in way, " -> ".join(".".join(step) for step in (*way[way.index(name) :], name))
        if name not in done:
            for target in ARROWS[name]:
                follow(target, (*way, name))
            done.add(name)

    for name in MODULES:
        follow(name, ())


def test_rooms_and_files_stay_small() -> None:
    rooms = [path.parent for path in MODULES.values()]
    assert {str(room.relative_to(ROOT)): rooms.count(room) for room in rooms if rooms.count(room) > MOST_FILES} == {}
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in MODULES.values()}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def drawn(room: str) -> str:
    """Return the line of docs/architecture.md that has the rooms which a room may import, by their short names."""
    short = sorted({name.removeprefix("platform/") for name in ROOMS[room] if name not in (room, *BASE)})
    return f"| `{room}` | {', '.join(short) or '-'} |"


@pytest.mark.parametrize("room", ROOMS)
def test_the_table_of_rooms_in_the_documentation_is_the_plan(room: str) -> None:
    assert drawn(room) in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
