"""What docs/crosses.md shows is what its statements answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import xpsql
from tests.docs.blocks import ROOT, blocks
from xpsql.platform.progress import SilentReporter


def test_the_rows_of_the_page_are_those_of_its_statements(folder: Path) -> None:
    (statements,) = (block.text for block in blocks("docs/crosses.md") if block.language == "sql")
    text = (ROOT / "docs" / "crosses.md").read_text(encoding="utf-8")
    counts, _, weights = text[text.index("(intercept)") :].split("```", 1)[0].rstrip().partition("\n\n")
    shown = [line.split() for line in [*counts.splitlines(), weights.splitlines()[-1]]]
    train, count, weigh = statements.split(";")[:3]
    with xpsql.connect(reporter=SilentReporter()) as session:
        session.sql(train)
        found = session.sql(count).arrow().to_pylist()
        ((slot, weight),) = (row.values() for row in session.sql(weigh).arrow().to_pylist())
    assert [[row["slot"], str(row["features"])] for row in found] == shown[:-1]
    assert slot == shown[-1][0]
    assert weight == pytest.approx(float(shown[-1][1]), abs=0.02)
