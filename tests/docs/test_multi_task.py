"""What docs/multi_task.md shows is what its statements answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import xpsql
from tests.docs.blocks import ROOT, blocks
from xpsql.platform.progress import SilentReporter


def test_the_predictions_of_the_page_are_those_of_its_statements(folder: Path) -> None:
    (statements,) = (block.text for block in blocks("docs/multi_task.md") if block.language == "sql")
    text = (ROOT / "docs" / "multi_task.md").read_text(encoding="utf-8")
    shown = text[text.index("u1    i2") :].split("```", 1)[0].splitlines()
    with xpsql.connect(reporter=SilentReporter()) as session:
        found = session.sql(statements).arrow().to_pylist()
    assert len(found) == len(shown) == 3
    for row, line in zip(found, shown, strict=True):
        user, item, *numbers = line.split()
        assert (row["user"], row["item"]) == (user, item)
        assert list(row.values())[2:] == pytest.approx([float(number) for number in numbers], abs=0.002)
