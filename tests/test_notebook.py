"""`%load_ext xpsql`, in a shell of IPython."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import xpsql

interactiveshell = pytest.importorskip("IPython.core.interactiveshell")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    made = interactiveshell.InteractiveShell()
    made.history_manager.enabled = False
    xpsql.load_ipython_extension(made)
    yield made
    made.history_manager.end_session()


def test_a_cell_gives_the_result_of_its_last_statement(shell: Any, tmp_path: Path) -> None:
    result = shell.run_cell_magic("xpsql", "--warehouse w", "CREATE TABLE t AS SELECT 1 AS n;\nSELECT n + 1 AS m FROM t")
    assert result.fetchall() == [(2,)]
    assert (tmp_path / "w").is_dir()
    assert "<table>" in result._repr_html_()
    assert shell.run_line_magic("xpsql", "SELECT n FROM t").fetchall() == [(1,)]


def test_a_line_without_a_statement_chooses_the_warehouse_of_the_cells_below(shell: Any, tmp_path: Path) -> None:
    assert shell.run_line_magic("xpsql", "--warehouse chosen") is None
    shell.run_cell_magic("xpsql", "", "CREATE TABLE t AS SELECT 1 AS n")
    assert (tmp_path / "chosen" / "tables" / "t").is_dir()


def test_an_error_of_a_session_is_short_in_a_notebook(shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell.user_ns["session"] = xpsql.connect(tmp_path / "mine")
    shell.run_cell("found = 1\nsession.sql('SELECT 1;\\nSELECT usr')")
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "Error (line 2, column 8): There is no column usr."
    assert shown[1:3] == ["    2 | SELECT usr", "      |        ^^^"]
    assert shown[3] == "In line 2: session.sql('SELECT 1;\\nSELECT usr')"
    assert len(shown) == 4
    shell.run_cell("session.model('absent')")
    assert capsys.readouterr().out.startswith("Error: There is no model absent.")


def test_a_result_can_be_named_and_a_session_of_the_notebook_used(shell: Any, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "mine") as session:
        shell.user_ns["mine"] = session
        assert shell.run_cell_magic("xpsql", "--session mine found <<", "SELECT 3 AS n") is None
        assert shell.user_ns["found"].fetchall() == [(3,)]


def test_an_error_is_short_and_shows_its_place(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_cell_magic("xpsql", "", "SELECT 1;\nSELECT * FROM nowhere") is None
    shown = capsys.readouterr().err
    assert shown.splitlines()[0].startswith("Error (line 2, column 15): There is no table or view nowhere.")
    assert shown.splitlines()[-1].endswith("^^^^^^^")
    assert "Traceback" not in shown
    shell.run_line_magic("xpsql", "--session nobody SELECT 1")
    assert "Expected a session in the variable nobody" in capsys.readouterr().err
