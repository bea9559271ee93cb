"""What chaos prints goes into the tables of docs/faults.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos.embedded import MODES, MOMENTS
from tests.chaos.table import PAGE, merged
from tests.warehouse.faults import CASES

SCRIPT = Path(__file__).parents[2] / "scripts" / "chaos"


def test_a_row_takes_the_place_of_the_one_with_its_name_and_others_come_behind() -> None:
    page = "# A\n\n| fault | kills |\n|---|---|\n| a | 1 |\n| b | 2 |\n\nAfter.\n"
    found = merged(page, "fault | kills", ["| c | 5 |", "| a | 9 |"])
    assert found == "# A\n\n| fault | kills |\n|---|---|\n| a | 9 |\n| b | 2 |\n| c | 5 |\n\nAfter.\n"
    with pytest.raises(ValueError, match="expected the columns"):
        merged(page, "fault | kills", ["| c | 5 | 6 |"])
    with pytest.raises(ValueError, match="expected one table"):
        merged(page, "fault", [])


def test_the_page_has_the_tables_of_the_script_and_a_row_of_each_embedded_fault_and_statement() -> None:
    page = PAGE.read_text(encoding="utf-8")
    kills, calls = re.findall(r'(?:kills|calls)="([^"]+)"', SCRIPT.read_text(encoding="utf-8"))
    for header in (kills, f"{kills} | seconds", calls):
        assert merged(page, header, []) == page
    names = [*(f"embedded, {mode}: {moment}" for mode in MODES for moment in MOMENTS), *CASES]
    assert [name for name in names if f"\n| {name} |" not in page] == []
