"""A class of the product has a name of its own: readers who search for it find one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PRODUCT = Path(__file__).resolve().parents[1]
FOLDERS = ("platform", "algorithms", "warehouse", "xpsql")  # xpsql/ links to the others
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
