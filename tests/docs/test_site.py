"""The site shows every fenced block as code, and its links lead somewhere."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.docs.blocks import ROOT


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def hooks() -> ModuleType:
    return loaded("site_files")


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("<p>```sql file=a.sql</p>", "index.html shows a fence as text: '```sql file=a.sql'"),
        ("<p>{: .wide }</p>", "index.html shows an attribute as text: '{: .wide }'"),
        ("<p>[SQL](sql.md)</p>", "index.html shows a link as text: '](sql.md)'"),
        ('<a href="gone.html">a</a>', "index.html has a dead link gone.html: no such file"),
        ('<a href="other.html#gone">a</a>', "index.html has a dead link other.html#gone: no such heading"),
        ('<script src="https://cdn.example/a.js"></script>', "index.html loads https://cdn.example/a.js from another host"),
        ('<p><a href="other.html#here">a</a> <code>```</code></p><pre>{: a }</pre>', ""),
    ],
)
def test_a_fault_of_a_built_page_is_found(tmp_path: Path, page: str, fault: str) -> None:
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "other.html").write_text('<h2 id="here">Here</h2>')
    assert list(loaded("site_check").faults(tmp_path)) == ([fault] if fault else [])


def test_the_site_of_these_pages_has_no_fault(tmp_path: Path) -> None:
    mkdocs = ROOT / ".venv-docs" / "bin" / "mkdocs"
    command = str(mkdocs) if mkdocs.exists() else shutil.which("mkdocs") if importlib.util.find_spec("material") else None
    if command is None:
        pytest.skip("needs mkdocs-material: run make docs")
    built = subprocess.run(
        [command, "build", "--quiet", "--strict", "--site-dir", str(tmp_path)], cwd=ROOT, capture_output=True
    )
    assert built.returncode == 0, built.stderr.decode()
    checked = [sys.executable, str(ROOT / "docs" / "site_check.py"), str(tmp_path)]
    assert subprocess.run(checked, capture_output=True, text=True).stderr == ""


def test_a_fence_keeps_its_language_alone(hooks: ModuleType) -> None:
    found = hooks.on_page_markdown("```sql file=visits.sql\nSELECT 1;\n```\n", None, None, None)
    assert found == "```sql\nSELECT 1;\n```\n"


def test_no_page_has_a_fence_that_the_parser_does_not_know(hooks: ModuleType) -> None:
    for page in sorted((ROOT / "docs").rglob("*.md")):
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
