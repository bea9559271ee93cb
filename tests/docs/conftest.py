"""What the documents' examples run in: an empty folder, and the command line as a user's shell has it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from xpsql.platform.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XPSQL_WAREHOUSE", raising=False)
    return tmp_path


@pytest.fixture
def command(folder: Path) -> Callable[[str], str]:
    """Runs a line that calls xpsql, and returns what it wrote to standard output."""

    def run(line: str) -> str:
        program, *arguments = shlex.split(line)
        assert program == "xpsql"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, f"{line}: {result.stderr}"
        return result.stdout

    return run
