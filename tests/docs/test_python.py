"""Every block of docs/python.md runs, in order, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT

PARTS = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
MAGIC = re.compile(r"^```ipython\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def run(names: dict[str, Any], folder: Path) -> None:
    examples = PARTS.findall(PAGE)
    assert len(examples) == PAGE.count("```python")
    for text, wanted in examples:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, "python.md", "exec"), names)
        shown = printed.getvalue().replace(str(folder), "/home/ann")
        assert [line.rstrip() for line in shown.splitlines()] == wanted.splitlines()


def test_every_example_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        run(names, tmp_path)
    finally:
        if "session" in names:
            names["session"].close()


def test_the_magics_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    shell = shells.InteractiveShell()
    shell.history_manager.enabled = False
    try:
        run(shell.user_ns, tmp_path)
        for cell in MAGIC.findall(PAGE):
            shell.run_cell(cell).raise_error()
        assert len(shell.user_ns["found"]) == 2000
    finally:
        shell.user_ns["session"].close()
        shell.history_manager.end_session()
