"""What docs/histories.md shows is what its statements answer."""

from __future__ import annotations

import re
from pathlib import Path

import xpsql
from tests.cases import lengthy
from tests.docs.blocks import ROOT
from xpsql.platform.progress import SilentReporter

SHOWN = re.compile(r"^```sql\n(.*?)^```\n+^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@lengthy
def test_the_lists_of_the_page_are_those_of_its_statements(folder: Path) -> None:
    pairs = SHOWN.findall((ROOT / "docs" / "histories.md").read_text(encoding="utf-8"))
    assert pairs
    with xpsql.connect(reporter=SilentReporter()) as session:
        for statements, shown in pairs:
            assert [line.rstrip() for line in session.sql(statements).text(20).splitlines()] == shown.splitlines()
