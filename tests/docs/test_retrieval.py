"""What docs/retrieval.md and docs/tdm.md show is what its statements answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xpsql
from tests.docs.blocks import ROOT
from xpsql.platform.progress import SilentReporter

PAIR = re.compile(r"^```sql\n(.*?)^```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(\.\d+)?")


@pytest.mark.parametrize("page", ["retrieval.md", "tdm.md"])
def test_the_rows_of_the_page_are_those_of_its_statements(folder: Path, page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    with xpsql.connect(reporter=SilentReporter()) as session:
        for statements, answer in PAIR.findall(text):
            found = session.sql(statements).arrow()
            head, _, *lines = answer.splitlines()
            assert head.split() == found.column_names
            assert len(lines) == found.num_rows
            for row, line in zip(found.to_pylist(), lines, strict=True):
                for value, shown in zip(row.values(), re.split(r"\s{2,}", line.strip()), strict=True):
                    if isinstance(value, float | int) and NUMBER.fullmatch(shown):
                        assert float(shown) == pytest.approx(value, abs=0.02)
                    elif isinstance(value, list):
                        assert shown == f"[{', '.join(map(str, value))}]"
                    else:
                        assert shown == {None: "NULL", True: "true", False: "false"}.get(value, str(value))
