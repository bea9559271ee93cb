"""What docs/vectors.md shows is what its statements answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xpsql
from tests.docs.blocks import ROOT, blocks
from xpsql.platform.progress import SilentReporter


def test_the_page_shows_what_its_statements_answer(folder: Path) -> None:
    statements = [block.text for block in blocks("docs/vectors.md") if block.language == "sql"]
    text = (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")
    shown, films = re.findall(r"^ +([01]\.\d+)$", text, re.MULTILINE)
    (click,) = re.findall(r"^new +(0\.\d)$", text, re.MULTILINE)
    with xpsql.connect(reporter=SilentReporter()) as session:
        (trained,), (scored,), explained, (pooled,) = (session.sql(one).arrow().to_pylist() for one in statements)
    assert any("shards run the network" in row["value"] for row in explained)
    assert trained["auc_of_new_pictures"] == pytest.approx(float(shown), abs=0.02)
    assert pooled["auc_of_other_films"] == pytest.approx(float(films), abs=0.02)
    assert scored == {"image": "new", "click": pytest.approx(float(click), abs=0.11)}
