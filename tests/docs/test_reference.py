"""docs/sql.md is what the declarations say."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from tests.docs.blocks import ROOT


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "reference.py"), run_name="reference")


def test_the_reference_equals_what_the_declarations_say(script: dict[str, Any]) -> None:
    written = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    assert written == script["reference"](), "docs/sql.md is not up to date: run python docs/reference.py"


def test_every_clause_is_explained(script: dict[str, Any]) -> None:
    for clause in script["CLAUSES"]:
        assert f"| `{clause.name}` | {clause.help} |" in script["reference"]()
