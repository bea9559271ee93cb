"""Pages show what their statements answer; and all that there is has an example with its output somewhere."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator

import pytest

from tests.cases import slow
from tests.docs.blocks import ROOT
from xpsql.algorithms import ALGORITHMS
from xpsql.platform.sql.functions import FUNCTIONS as TABLE_FUNCTIONS
from xpsql.platform.sql.statements import STATEMENTS
from xpsql.platform.udf import FUNCTIONS

PAGES = ("reference/_examples", "transform")
NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?")
OF_THE_MACHINE = re.compile(r"^(time  |memory  |checkpoints|\.\.\. |\s*\d+ +rows/)")
"""How lines begin whose numbers are others elsewhere: times, bytes of files, and how many rows are left out."""
WITH_OUTPUT = re.compile(r"^```sql[^\n]*\n((?:(?!^```).)*)^```\n+```(?:text)?\n", re.MULTILINE | re.DOTALL)


def lines(output: str) -> Iterator[tuple[str, list[float]]]:
    """Yield the lines of a table: words, and numbers."""
    for line in output.splitlines():
        if line.strip("- "):
            numbers = [] if OF_THE_MACHINE.match(line) else [float(number.replace(",", "")) for number in NUMBER.findall(line)]
            yield " ".join(NUMBER.sub("N", line).split()), numbers


@slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_statements_answer(page: str) -> None:
    pytest.importorskip("xgboost")
    reported: list[tuple[str, str]] = []
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    answered = runpy.run_path(str(ROOT / "docs" / "examples.py"), run_name="examples")["answered"]
    answered(text, lambda shown, output: reported.append((shown, output)))
    assert len(reported) >= 4
    for shown, output in reported:
        for (words, numbers), (wanted_words, wanted) in zip(lines(output), lines(shown), strict=True):
            assert words == wanted_words, f"run python docs/examples.py docs/{page}.md"
            assert numbers == pytest.approx(wanted, abs=0.021, rel=0.02), words


def test_every_statement_function_and_algorithm_has_an_example_with_its_output() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    shown = " ".join(block for page in pages for block in WITH_OUTPUT.findall(page.read_text(encoding="utf-8")))
    words = re.sub(r"\s+", " ", shown).upper()
    wanted = [
        *(rf"\b{name}\b" for name in STATEMENTS.names),
        *(rf"\bML\.{name}\(" for name in TABLE_FUNCTIONS.names),
        *(rf"\b{function.name.upper()}\(" for function in FUNCTIONS),
        *(rf"\bUSING {name.upper()}\b" for name in ALGORITHMS.names),
    ]
    assert not [name for name in wanted if not re.search(name, words)]
