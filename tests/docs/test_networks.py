"""What docs/networks.md shows is what its file and its statements answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import xpsql
from tests.docs.blocks import ROOT, blocks
from xpsql.platform.cli import main
from xpsql.platform.progress import SilentReporter


def test_the_parameters_on_the_page_are_those_of_its_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = {block.language: block.text for block in reversed([*blocks("docs/networks.md")]) if block.language}  # the first
    monkeypatch.chdir(tmp_path)
    Path("two_layers.py").write_text(found["python"], encoding="utf-8")
    shown = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8").split("dense network.hidden", 1)[1].split("```", 1)[0]
    lines = f"dense network.hidden{shown}".strip().splitlines()
    with xpsql.connect(reporter=SilentReporter()) as session:
        rows = session.sql(found["sql"]).arrow().to_pylist()
    dense = {row["property"]: row["value"] for row in rows if row["property"].startswith("dense ")}
    assert dense == {" ".join(line.split()[:2]): line.split(maxsplit=2)[2] for line in lines}


def test_the_command_on_the_page_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {block.language: block.text for block in reversed([*blocks("docs/networks.md")]) if block.language}  # the first
    monkeypatch.chdir(tmp_path)
    Path("two_layers.py").write_text(found["python"], encoding="utf-8")
    command, *shown = found["console"].strip().splitlines()
    answer = CliRunner().invoke(main, command.removeprefix("$ xpsql ").split())
    assert (answer.exit_code, answer.output.splitlines()) == (0, shown)
