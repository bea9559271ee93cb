"""The statements of pages that show few of them run, and what docs/algorithms.md shows is what they answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xpsql
from tests.cases import lengthy, slow
from tests.docs.blocks import ROOT, blocks
from xpsql.platform.progress import SilentReporter


@lengthy
def test_the_pairs_of_the_page_are_found_as_it_shows(folder: Path) -> None:
    (statements,) = (block.text for block in blocks("docs/algorithms.md") if block.language == "sql")
    text = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^auc +(.*)$", text, re.MULTILINE)
    with xpsql.connect(reporter=SilentReporter()) as session:
        (row,) = session.sql(statements).arrow().to_pylist()
    assert list(row.values())[1:] == pytest.approx([float(value) for value in shown.split()], abs=0.02)


@slow
def test_what_the_page_for_newcomers_writes_runs(folder: Path) -> None:
    (statements,) = (block.text for block in blocks("docs/migrating.md") if block.language == "sql")
    with xpsql.connect(reporter=SilentReporter()) as session:
        assert len(session.sql(statements)) == 3
        for cross in ("user * ad", "user * ad * hour", "(user, ad, hour) ^ 2"):
            session.sql(f"EXPLAIN TRAIN MODEL x USING xftrl LABEL click CROSS ({cross}) AS SELECT * FROM log")


@slow
def test_the_groups_of_the_page_are_found_as_it_shows(folder: Path) -> None:
    text = (ROOT / "docs" / "compact.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\n((?:\w+: .*\n)+)```$", text, re.MULTILINE)
    with xpsql.connect(reporter=SilentReporter()) as session:
        found = [dict(session.sql(block.text).fetchall()) for block in blocks("docs/compact.md")]
    assert len(found) == len(shown) == 3
    for reported, lines in zip(found, shown, strict=True):
        for name, value in re.findall(r"(\w+): (.*)", lines):
            assert reported[name] == value
