"""Every block of the quickstart runs, in order, in one folder."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import xpsql
from tests.docs.blocks import blocks
from xpsql.platform.progress import SilentReporter


def test_every_block_of_the_quickstart_runs(folder: Path, command: Callable[[str], str]) -> None:
    names: dict[str, Any] = {}
    for block in blocks("docs/quickstart.md"):
        if block.language == "python":
            exec(compile(block.text, "quickstart.md", "exec"), names)
        elif block.name == "file":
            (folder / block.value).write_text(block.text)
        elif block.language == "sql":
            with xpsql.connect(reporter=SilentReporter()) as session:
                session.sql(block.text)
        else:
            assert block.language == "sh"
            run_lines(block.text, command)
    with xpsql.connect(reporter=SilentReporter()) as session:
        had = "EXISTS (SELECT 1 FROM viewed v WHERE v.visitor = r.visitor AND v.page = r.page)"
        (row,) = session.sql(f"SELECT count(*) AS n, count_if({had}) AS had FROM recommended r").arrow().to_pylist()
    assert row["n"] > 0
    assert row["had"] == 0
    assert names["table"].num_rows == 2500
    assert min(names["visits"]["date"].to_pylist()) >= date(2026, 11, 22)
    assert "predicted_ordered" in names["table"].column_names


def run_lines(text: str, command: Callable[[str], str]) -> None:
    for line in text.splitlines():
        if not line.startswith("pip install "):
            assert command(line)
