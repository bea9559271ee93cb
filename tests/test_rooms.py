"""Rooms import down only, so that the plan of docs/architecture.md cannot rot."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import lengthy
from tests.rooms import ARROWS, EXCEPTIONS, FLOOR, MODULES, PAGE, ROOMS, ROOT, drawn, may_import, room_of

MOST_FILES, MOST_LINES, MOST_OF_A_FUNCTION, MOST_EXCEPTIONS = 25, 350, 60, 10
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
USED = {
    (room_of(MODULES[name]), room_of(MODULES[target])): f"{'.'.join(name)} imports {'.'.join(target)}"
    for name, targets in ARROWS.items()
    for target in sorted(targets)
}


def test_every_room_stands_on_one_floor() -> None:
    assert {room_of(path) for path in MODULES.values()} == set(ROOMS)
    assert len(FLOOR) == len(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_lower_floors_alone(room: str) -> None:
    assert not [text for pair, text in USED.items() if pair[0] == room and not may_import(*pair) and pair not in EXCEPTIONS]


def test_exceptions_are_few_and_each_is_used() -> None:
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS
    assert [pair for pair in EXCEPTIONS if pair not in USED or may_import(*pair)] == []


def test_others_use_the_translation_by_its_own_names_alone() -> None:
    room = ("xpsql", "platform", "engines", "duckdb", "translation")
    inside = {name for name in MODULES if name[: len(room)] == room}
    assert {name: targets & (inside - {room}) for name, targets in ARROWS.items() if name not in inside} == {
        name: set() for name in ARROWS.keys() - inside
    }


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
    assert [text for path in MODULES.values() for text in long_functions(path)] == []


def long_functions(path: Path) -> Iterator[str]:
    """Yield the functions of a file that are too long to be read at once."""
    functions = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, FUNCTIONS))
    for function in functions:
        if (count := (function.end_lineno or 0) - function.lineno + 1) > MOST_OF_A_FUNCTION:
            yield f"{path.relative_to(ROOT)}: {function.name} has {count} lines"


@lengthy
def test_the_page_shows_the_rooms_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert drawn(page) == page, "run python -m tests.rooms"
