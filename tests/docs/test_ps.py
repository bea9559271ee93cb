"""Every block of docs/ps.md that stands alone runs, in order, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT

PARTS = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
PAGE = (ROOT / "docs" / "ps.md").read_text(encoding="utf-8")


def test_every_example_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    examples = PARTS.findall(PAGE)
    assert len(examples) == PAGE.count("```python\n") == 3
    for text, wanted in examples:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, "ps.md", "exec"), names)
        assert [line.rstrip() for line in printed.getvalue().splitlines()] == wanted.splitlines()
