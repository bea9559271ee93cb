from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from pygments.token import Keyword, Name, String

from tests.plain import plain_session
from xpsql.platform.cli.completion import Names
from xpsql.platform.cli.output import write_csv
from xpsql.platform.cli.screen import StatementLexer, fitted
from xpsql.platform.cli.shell import Commands, finished, read_statements
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.session import Session

CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with plain_session(tmp_path) as session:
        session.engine.execute("CREATE TABLE clicks AS SELECT 1 AS user_id, 2 AS url")
        yield session


def typed(session: Session, keys: str) -> None:
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        read_statements(session, {"n": "7"}, write_csv, False, pipe, DummyOutput())


def test_a_statement_goes_over_lines_until_its_semicolon(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, "SELECT ${n} AS x,\r';' AS y;\r" + CTRL_D)
    assert capsys.readouterr().out == "x,y\n7,;\n"


def test_an_error_is_shown_and_the_shell_goes_on(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, "SELECT * FROM nowhere;\rCREATE TABLE t AS SELECT 1;\rexit\r")
    shown = capsys.readouterr()
    assert shown.err.splitlines()[-1] == "      |               ^^^^^^^"
    assert shown.out.endswith("OK\n")


def test_ctrl_c_drops_the_line(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, "SELECT 1" + CTRL_C + "SELECT 2 AS x;\r" + CTRL_D)
    assert capsys.readouterr().out == "x\n2\n"


def test_statements_are_remembered(session: Session, tmp_path: Path) -> None:
    typed(session, "SELECT 41 AS x;\r" + CTRL_D)
    assert "+SELECT 41 AS x;" in (tmp_path / "state" / "xpsql" / "history").read_text(encoding="utf-8")


def test_statements_are_remembered_for_their_user_alone_and_without_secrets(session: Session, tmp_path: Path) -> None:
    typed(session, "SELECT 'x' AS password, 'sword' AS y;\rSET a.password = 'fish';\r" + CTRL_D)
    history = tmp_path / "state" / "xpsql" / "history"
    assert "+SET a.password = '***';" in history.read_text(encoding="utf-8")
    assert history.stat().st_mode & 0o777 == 0o600


def test_the_shell_runs_where_nothing_can_be_remembered(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    typed(session, "SELECT 1 AS x;\rSELECT 2 AS x;\r" + CTRL_D)
    assert capsys.readouterr().out == "x\n1\nx\n2\n"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("quit", True),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("SELECT /* ;", False),
        ("${query}", False),
        ("(SELECT 1", False),
        ("train model m", False),
        ("cls", True),
        ("exit()", True),
        ("summarize log", True),
    ],
)
def test_an_entry_is_finished_by_its_semicolon_or_by_a_word_that_begins_no_statement(text: str, whole: bool) -> None:
    assert finished(text, DuckDBEngine.statements) is whole


def completions(session: Session, before: str, after: str = "") -> list[str]:
    document = Document(before + after, cursor_position=len(before))
    return [completion.text for completion in Names(session).get_completions(document, CompleteEvent())]


def test_leading_words_of_statements_are_completed(session: Session) -> None:
    assert {"TRAIN", "TABLE"} <= set(completions(session, "T"))
    assert completions(session, "continue") == ["CONTINUE"]


def test_tables_and_functions_are_completed_after_from(session: Session) -> None:
    assert completions(session, "SELECT * FROM cl") == ["clicks"]
    assert "ML.PREDICT" in completions(session, "SELECT * FROM ml.")


def test_columns_of_the_tables_named_are_completed(session: Session) -> None:
    assert completions(session, "SELECT u", " FROM clicks") == ["UNION", "url", "user_id", "USING"]
    assert completions(session, "SELECT u", " FROM absent") == ["UNION", "USING"]


def test_models_are_completed_after_model(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.models, "names", lambda: ["ctr", "cvr", "other"])
    assert completions(session, "SELECT * FROM ML.PREDICT(MODEL c") == ["ctr", "cvr"]


def test_rows_are_shown_in_lines_and_times_on_demand(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, "\\x\rSELECT 1 AS a, 'two' AS long;\r\\x\r\\timing\rSELECT 3 AS b;\r" + CTRL_D)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == ["Rows are shown in lines.", "-[ row 1 ]-", "a    | 1", "long | two", "Rows are shown as a table."]
    assert lines[5:8] == ["Times are shown.", "b", "3"]
    assert lines[8].startswith("Time: ")


def test_columns_that_do_not_fit_a_terminal_are_left_out_and_reported() -> None:
    table = pa.table({"text": ["x" * 90, "b"], **{f"column_{n}": [n, None] for n in range(6)}})
    shown = fitted(table, 100)
    assert "x" * 59 + "…" in shown
    assert max(map(len, shown.splitlines()[:-1])) <= 100
    assert shown.endswith("... 3 more columns (\\x shows a line for each): column_3, column_4, column_5\n")
    whole = fitted(table.select(["column_0", "column_1"]), 40)
    assert "NULL" in whole
    assert "…" not in whole


def test_our_words_are_coloured_as_those_of_sql() -> None:
    kinds = {value: kind for _, kind, value in StatementLexer().get_tokens_unprocessed("TRAIN MODEL m LABEL 'y' -- z")}
    assert kinds["TRAIN"] is kinds["LABEL"] is Keyword
    assert kinds["m"] is Name
    assert kinds["'y'"] in String


def test_the_shell_lists_its_words_and_tables(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    typed(session, "help\r.tables\r" + CTRL_D)
    shown = capsys.readouterr().out
    assert shown.startswith("Statements end with a semicolon;")
    assert all(word in shown for word in Commands.words)
    assert shown.endswith("clicks\n")


@pytest.mark.parametrize(
    ("before", "wanted", "other"),
    [
        ("TRAIN MODEL m USING ", "xftrl", "ftrl"),
        ("TRAIN MODEL m USING xf", "xftrl", "fm"),
        ("TRAIN MODEL m USING xftrl (", "alpha", "passes"),
        ("TRAIN MODEL m USING xftrl (alpha = 0.1, ", "l1", "passes"),
        ("TRAIN MODEL m USING xftrl OPERATORS (", "admit", "xftrl"),
        ("TRAIN MODEL m USING xftrl OPERATORS (admit (min_count = 2), ", "safety", "xftrl"),
        ("TRAIN MODEL m USING xftrl OPERATORS (admit (", "utility", "passes"),
        ("TRAIN MODEL m USING xftrl LABEL y WITH (passes = 2, ", "batch_size", "alpha"),
        ("TRAIN MODEL m USING xftrl LABEL y WITH (sync = ", "'bsp'", "passes"),
        ("TRAIN MODEL m USING xftrl (intercept = ", "false", "alpha"),
        ("TRAIN MODEL m USING xftrl LABEL ", "url", "alpha"),
        ("TRAIN MODEL m USING xftrl CROSS (url * us", "user_id", "alpha"),
        ("TRAIN MODEL m USING xftrl TRANSFORM (lower(", "url", "alpha"),
        ("TRAIN MODEL m USING xftrl TUNE BY ", "auc", "alpha"),
        ("TRAIN MODEL m USING xftrl VALIDATE ", "LAST", "alpha"),
        ("TRAIN MODEL m USING xftrl EVALUATE EVERY 5 ", "BATCHES", "alpha"),
        ("DESCRIBE ALGORITHM ", "xftrl", "ftrl"),
        ("DESCRIBE OPERATOR ", "ftrl", "xftrl"),
        ("SHOW ", "ALGORITHMS", "SHOW ALGORITHMS"),
        ("ALTER MODEL m ", "PROMOTE", "ALTER MODEL"),
        ("SELECT ", "url", "alpha"),
    ],
)
def test_parts_and_options_are_completed_where_they_stand(session: Session, before: str, wanted: str, other: str) -> None:
    found = [completion.text for completion in Names(session).get_completions(Document(before), CompleteEvent())]
    assert wanted in found
    assert other not in found


@pytest.mark.parametrize("before", ["SELECT sum(", "TRAIN MODEL m USING nothing (", "TRAIN MODEL m USING xftrl (loss = 'lo"])
def test_elsewhere_no_option_is_offered(session: Session, before: str) -> None:
    found = [completion.text for completion in Names(session).get_completions(Document(before), CompleteEvent())]
    assert "alpha" not in found
