"""The words of other systems' shells do what they do there, and none waits for a semicolon that never comes."""

from __future__ import annotations

import pytest

from tests.cli.test_shell import CTRL_D, session, typed
from xpsql.platform.cli.shell import finished
from xpsql.platform.session import Session

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
    assert finished(entry)


def test_the_shell_says_what_it_is_and_where_help_is(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, CTRL_D)
    assert "help" in capsys.readouterr().err.splitlines()[0]
