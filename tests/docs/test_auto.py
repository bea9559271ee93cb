"""What docs/auto.md says is found is what its statements find."""

from __future__ import annotations

import re
from pathlib import Path

import xpsql
from tests.docs.blocks import ROOT, blocks
from xpsql.platform.progress import SilentReporter


def test_the_statements_of_the_page_find_what_it_says(folder: Path) -> None:
    train, trials, crosses = (block.text for block in blocks("docs/auto.md") if block.language == "sql")
    (shown,) = (
        line for line in (ROOT / "docs" / "auto.md").read_text(encoding="utf-8").splitlines() if line.endswith("  lacks")
    )
    with xpsql.connect(reporter=SilentReporter()) as session:
        (statement,) = session.sql(train).arrow()["statement"].to_pylist()
        tried = session.sql(trials).arrow().to_pylist()
        (row,) = session.sql(crosses).arrow().to_pylist()
    assert "CROSS (user * item)" in statement
    assert [trial["stage"] for trial in tried if trial["is_optimal"]] == ["crosses"]
    found = [row["slots"], str(row["gain"]), str(row["sure"]).lower(), row["verdict"]]
    assert found == re.split(r"  +", shown)
