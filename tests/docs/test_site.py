"""The site shows every fenced block as code."""

from __future__ import annotations

import importlib.util
from types import ModuleType, SimpleNamespace

import pytest

from tests.docs.blocks import ROOT


@pytest.fixture
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_files", ROOT / "docs" / "site_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_fence_keeps_its_language_alone(hooks: ModuleType) -> None:
    found = hooks.on_page_markdown("```sql file=visits.sql\nSELECT 1;\n```\n", None, None, None)
    assert found == "```sql\nSELECT 1;\n```\n"


def test_no_page_has_a_fence_that_the_parser_does_not_know(hooks: ModuleType) -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        made = hooks.on_page_markdown(page.read_text(encoding="utf-8"), None, None, None)
        fences = [line for line in made.splitlines() if line.startswith("```")]
        assert all(fence[3:].isalnum() or not fence[3:] for fence in fences), page.name
        assert len(fences) % 2 == 0, page.name


def test_a_page_that_shows_a_fence_as_text_is_refused(hooks: ModuleType) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))
    code = "<p>Write <code>```sql</code>:</p><pre><code>```</code></pre>"
    assert hooks.on_page_content(code, page, None, None) == code
    with pytest.raises(hooks.RawFence, match=r"page\.md shows a fence"):
        hooks.on_page_content("<p>```sql file=visits.sql SELECT 1; ```</p>", page, None, None)
