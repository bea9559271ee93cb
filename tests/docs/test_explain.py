"""What docs/attention.md, data.md, explain.md, multiclass.md and tuning.md show is what their statements answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xpsql
from tests.docs.blocks import ROOT
from xpsql.platform.progress import SilentReporter

OF_THE_MACHINE = re.compile(r"^(?:time|memory|checkpoints)  .*\n", re.MULTILINE)
"""Lines of EXPLAIN that differ between machines."""
SHOWN = re.compile(r"```sql\n(.*?)```\n(?:\n```\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize("page", ["attention.md", "data.md", "explain.md", "multiclass.md", "tuning.md"])
def test_the_results_of_the_page_are_those_of_its_statements(folder: Path, page: str) -> None:
    """Numbers may differ in the last digit: they are rounded, and machines add in other orders."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    compared = 0
    with xpsql.connect(reporter=SilentReporter()) as session:
        for statements, shown in SHOWN.findall(text):
            found = str(session.sql(statements))
            if not shown:
                continue
            compared += 1
            sides = (OF_THE_MACHINE.sub("", side).strip() for side in (found, shown))
            ours, theirs = (re.split(r"\s{2,}|[ \n,\[\]]", side) for side in sides)
            assert len(ours) == len(theirs)
            for mine, other in zip(ours, theirs, strict=True):
                if is_number(other):
                    assert abs(float(mine) - float(other)) <= 1.5 * 10 ** -len(other.partition(".")[2])
                else:
                    assert mine == other or {*other} <= {"-"}
    assert compared == text.count("\n```\n\n```\n") > 0


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) is not None
