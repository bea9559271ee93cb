"""Docstrings begin with a noun or a verb."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.rooms import MODULES, ROOT

REFUSED = ("of", "that", "which", "who", "whom", "whose")
DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def first_words(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the first word of everything in a file that has a docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, DESCRIBED) else None
        if text and (word := re.match(r"[A-Za-z]+", text)):
            yield getattr(node, "name", "the file"), word[0].lower()


def test_no_docstring_begins_with_a_relative_pronoun_or_of() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name} begins with {word!r}"
        for path in MODULES.values()
        for name, word in first_words(path)
        if word in REFUSED
    ]
    assert not wrong
