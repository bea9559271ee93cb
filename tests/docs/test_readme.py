"""The README's page of statements runs as it stands, and its commands exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cases import lengthy, slow
from tests.docs.blocks import ROOT, blocks

README = blocks("README.md")


@lengthy
def test_the_statements_and_the_python_of_the_readme_run(folder: Path, command: Callable[[str], str]) -> None:
    (sql,) = [block.text for block in README if block.language == "sql"]
    (python,) = [block.text for block in README if block.language == "python"]
    (folder / "first.sql").write_text(sql)
    reported = command("xpsql run first.sql")
    assert "predicted_click" in reported
    names: dict[str, Any] = {}
    exec(compile(python, "README.md", "exec"), names)
    assert "predicted_click" in names["table"].column_names


@slow
def test_the_model_of_the_readme_has_learned(folder: Path, command: Callable[[str], str]) -> None:
    (sql,) = [block.text for block in README if block.language == "sql"]
    (folder / "first.sql").write_text(sql)
    command("xpsql run first.sql")
    measured = command("xpsql sql 'SELECT auc > 0.6 AS learned FROM ML.EVALUATE(MODEL ctr, TABLE log)' --format csv")
    assert measured == "learned\ntrue\n"


def test_the_readme_shows_ten_statements() -> None:
    (sql,) = [block.text for block in README if block.language == "sql"]
    assert re.findall(r"^-- (\d+)\.", sql, re.MULTILINE) == [str(number) for number in range(1, 11)]


def test_the_make_targets_of_the_readme_and_of_contributing_exist() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"\bmake (\w+)", "\n".join(b.text for b in README if b.language == "sh"))
    named += re.findall(r"^\| `make ([\w-]+)`", (ROOT / "docs" / "contributing.md").read_text(), re.MULTILINE)
    assert {"demo", "test", "check", "docs", "bench", "chaos"} <= set(named)
    assert set(named) <= set(targets)
