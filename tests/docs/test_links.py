"""Documents point at files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
FILE = re.compile(r"`((?:platform|algorithms|warehouse|tests|docs|examples)/[\w/.]+\.(?:py|sql|md))`")
INVENTED = {
    "platform/sql/statements/count_versions.py",
    "platform/operators/noise_floor.py",
    "platform/training/metrics/win_rate.py",
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_to_files(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    missing = [link for link in LINK.findall(text) if not (document.parent / link).exists()]
    missing += [name for name in FILE.findall(text) if name not in INVENTED and not (ROOT / name).exists()]
    assert not missing


def test_every_document_is_reached_from_the_index_and_has_a_place_in_the_site() -> None:
    index, site = (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    names = [document.name for document in DOCUMENTS[1:]]
    assert [name for name in names if name != "index.md" and f"]({name})" not in index] == []
    assert [name for name in names if not re.search(rf"[\s\[]{re.escape(name)}[\s,\]]", site)] == []
    assert "](docs/index.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
