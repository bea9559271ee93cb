"""docs/figures.md is short, shows the results, and hides no target that was missed."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from benchmarks.__main__ import RESULTS
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "results.py"), run_name="results")


def figures(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    machine = {"cpu": "Z80", "cores": 1}
    return [{"group": "g", "date": "2026-01-02", "machine": machine, "command": "python -m benchmarks", "rows": list(rows)}]


def row(what: str, value: float, unit: str = "s", target: str = "", peer: str = "") -> dict[str, Any]:
    return {"what": what, "value": value, "unit": unit, "low": None, "high": None, "target": target, "peer": peer}


def test_the_page_is_short() -> None:
    assert PAGE.count("\n") <= 180


def test_a_row_has_its_peer_and_the_ratio_to_it_and_a_missed_target_is_bold(script: dict[str, Any]) -> None:
    results = script["Results"](
        figures(row("a", 2.0, target="<= 1"), row("a's ratio", 3.0, "x", ">= 2", "b"), row("c", 4.0, peer="d"))
    )
    assert results.line("g | a") == ("a", "2", "s", "", "", "**at most 1**", "`g`")
    assert results.line("g | a | a's ratio") == ("a", "2", "s", "b", "3", "at least 2", "`g`")
    assert results.line("g | a | c")[3:5] == ("d", "0.500")
    assert "| `g` | `python -m benchmarks` | Z80, 1 cores | 2026-01-02 |" in results.runs()


def test_a_figure_that_is_not_there_is_an_error(script: dict[str, Any]) -> None:
    with pytest.raises(KeyError, match="gone"):
        script["Results"](figures(row("a", 2.0))).line("g | gone")


def test_every_target_that_was_missed_is_on_the_page(script: dict[str, Any]) -> None:
    results = script["Results"](
        script["json"].loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))
    )
    missed = [what for (_, what), found in results.figures.items() if script["target"](found).startswith("**")]
    shown = [line.removeprefix("| ") for line in PAGE.splitlines()] + (ROOT / "docs" / "_figures.md").read_text(
        "utf-8"
    ).splitlines()
    assert [what for what in missed if not any(what in line for line in shown)] == []
