"""A class of the product has a name of its own, and so has a module of a floor: readers who search find one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.rooms import FLOOR, MODULES, ROOT, room_of

PRODUCT = Path(__file__).resolve().parents[1]
FOLDERS = ("platform", "algorithms", "warehouse", "xpsql")  # xpsql/ links to the others
REGISTRIES = ("platform/engines", "platform/sql/functions")
ELSEWHERE = PRODUCT / "xpsql" / "dbapi.py"  # PEP 249 names its classes


def classes(folders: tuple[str, ...]) -> dict[str, set[str]]:
    """Return the files of each class name."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in (file for folder in folders for file in (PRODUCT / folder).rglob("*.py")):
        if file.resolve() == file != ELSEWHERE:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].add(str(file.relative_to(PRODUCT)))
    return found


def test_no_class_name_is_used_for_two_things() -> None:
    found = classes(FOLDERS)
    assert len(found) > 400
    assert {name: sorted(files) for name, files in found.items() if len(files) > 1} == {}


def test_no_two_modules_of_a_floor_have_one_name() -> None:
    """Rooms of the engines mirror each other, and a registry names its parts as statements do."""
    found: dict[tuple[int, str], list[str]] = defaultdict(list)
    for path in MODULES.values():
        room = room_of(path)
        if path.stem not in ("__init__", "__main__", "base") and not room.startswith(REGISTRIES):
            found[FLOOR[room], path.stem].append(str(path.relative_to(ROOT)))
    assert len(found) > 500
    assert {name: files for (_, name), files in found.items() if len(files) > 1} == {}
