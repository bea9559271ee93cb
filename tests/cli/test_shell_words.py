"""The words of other systems' shells do what they do there, and none waits for a semicolon that never comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_shell import CTRL_D, session, typed
from xpsql.platform.cli.shell import finished
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.progress import SilentReporter
from xpsql.platform.session import Session, connect

__all__ = ["session"]


@pytest.mark.parametrize("word", ["\\d", "\\dt", ".tables", ".schema"])
def test_tables_are_listed(session: Session, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, f"{word}\r" + CTRL_D)
    assert capsys.readouterr().out.splitlines() == ["clicks"]


@pytest.mark.parametrize("entry", ["\\d clicks", ".schema clicks;"])
def test_the_columns_of_a_table_are_listed(session: Session, entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, f"{entry}\r" + CTRL_D)
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["column_name", "user_id", "url"]


@pytest.mark.parametrize("entry", ["\\l", ".mode csv", "\\copy a b"])
def test_a_command_that_there_is_not_is_told(session: Session, entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, f"{entry}\rSELECT 5 AS x;\r" + CTRL_D)
    told = capsys.readouterr()
    assert told.err.splitlines()[1] == f"There is no command {entry.split()[0]}; help lists them."
    assert told.out.endswith("x\n5\n")


@pytest.mark.parametrize("entry", ["\\d", "\\d t", ".schema t", "clear", "\\q", ".quit", "\\anything at all", ".anything"])
def test_a_command_is_finished_without_a_semicolon(entry: str) -> None:
    assert finished(entry, DuckDBEngine.statements)


@pytest.mark.parametrize("entry", ["help", ".help", "\\h", "\\?"])
def test_help_is_there_by_the_words_of_other_shells(session: Session, entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, f"{entry}\r" + CTRL_D)
    assert capsys.readouterr().out.startswith("Statements end with a semicolon;")


def test_a_word_that_begins_no_statement_is_told_at_once(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as embedded:
        typed(embedded, "selct 1\rSELECT 5 AS x;\r" + CTRL_D)
    told = capsys.readouterr()
    assert "Did you mean SELECT?" in told.err
    assert told.out == "x\n5\n"


def test_the_shell_says_what_it_is_and_where_help_is(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, CTRL_D)
    assert "help" in capsys.readouterr().err.splitlines()[0]
