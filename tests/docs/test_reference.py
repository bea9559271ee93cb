"""The pages of the reference are what the declarations say."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from tests.docs.blocks import ROOT


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "reference.py"), run_name="reference")


@pytest.fixture(scope="module")
def pages(script: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = script["pages"]()
    return found


def test_the_reference_equals_what_the_declarations_say(pages: dict[str, str]) -> None:
    docs = ROOT / "docs"
    written = {"sql.md", *(str(path.relative_to(docs)) for path in docs.glob("reference/**/[!_]*.md"))}
    differing = [name for name, text in pages.items() if not (docs / name).exists() or (docs / name).read_text("utf-8") != text]
    assert differing == [], "run python docs/reference.py"
    assert written == set(pages), "run python docs/reference.py"


def test_the_site_has_a_place_for_each_page_of_the_reference(script: dict[str, Any]) -> None:
    assert (ROOT / "mkdocs.yml").read_text(encoding="utf-8") == script["nav"](), "run python docs/reference.py"


def test_every_clause_is_explained(script: dict[str, Any]) -> None:
    for clause in script["CLAUSES"]:
        assert f"| `{clause.name}` | {clause.help} |" in script["clauses"]()


def test_every_operator_has_an_example_with_its_output(script: dict[str, Any], pages: dict[str, str]) -> None:
    without = [name for name, text in pages.items() if "/operators/" in name and "```text\n" not in text]
    assert without == []
