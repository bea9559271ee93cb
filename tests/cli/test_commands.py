from __future__ import annotations

import csv
import io
import json
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest
from click import Context
from click.testing import CliRunner

from tests.cli.conftest import Command
from xpsql.platform.cli import main
from xpsql.platform.session import Session

ROWS = "SELECT * FROM (VALUES (1, 'a,\"b', NULL, [1.5], true), (2, 'é', 'nan'::DOUBLE, [], false)) AS t(n, s, f, l, b)"


def test_rows_are_written_as_aligned_text_without_colour(xpsql: Command) -> None:
    result = xpsql("sql", "SELECT 1 AS x, 'a' AS name")
    assert (result.exit_code, result.stdout) == (0, "x  name\n-  ----\n1  a\n")


def test_long_tables_are_limited_in_table_format_only(xpsql: Command) -> None:
    assert xpsql("sql", "SELECT * FROM range(250)").stdout.endswith("\n   99\n... 150 more rows\n")
    assert len(xpsql("sql", "SELECT * FROM range(250)", "--format", "csv").stdout.splitlines()) == 251


def test_json_is_one_object_per_line(xpsql: Command) -> None:
    lines = xpsql("sql", ROWS, "--format", "json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"n": 1, "s": 'a,"b', "f": None, "l": [1.5], "b": True},
        {"n": 2, "s": "é", "f": None, "l": [], "b": False},
    ]


def test_csv_has_a_header_and_quotes(xpsql: Command) -> None:
    rows = list(csv.reader(io.StringIO(xpsql("sql", ROWS, "--format", "csv").stdout)))
    assert rows == [["n", "s", "f", "l", "b"], ["1", 'a,"b', "", "[1.5]", "true"], ["2", "é", "nan", "[]", "false"]]


def test_arrow_is_a_stream_per_statement(xpsql: Command) -> None:
    stream = io.BytesIO(xpsql("sql", "SELECT 1 AS x; SELECT 'a' AS y", "--format", "arrow").stdout_bytes)
    assert [pa.ipc.open_stream(stream).read_all().to_pylist() for _ in range(2)] == [[{"x": 1}], [{"y": "a"}]]


def test_a_file_runs_with_variables(xpsql: Command, tmp_path: Path) -> None:
    file = tmp_path / "job.sql"
    file.write_text("CREATE TABLE t AS SELECT ${n} AS x, '${s}' AS s; SELECT * FROM t", encoding="utf-8")
    result = xpsql("run", str(file), "-D", "n=3", "-D", "s=a=b", "--format", "csv")
    assert (result.exit_code, result.stdout) == (0, "x,s\n3,a=b\n")


def test_a_script_may_come_from_stdin(xpsql: Command) -> None:
    assert xpsql("run", "-", "--format", "csv", input="SELECT 5 AS x").stdout == "x\n5\n"


def test_a_shell_without_a_terminal_runs_what_it_reads(xpsql: Command) -> None:
    script = "CREATE TABLE t AS SELECT ${n} AS x;\nSELECT * FROM t"
    assert xpsql("shell", "--format", "csv", "-D", "n=5", input=script).stdout == "x\n5\n"
    failed = xpsql("shell", input="SELECT * FROM nowhere; SELECT 1")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr.startswith("Error (<stdin>, line 1, column 15): There is no table nowhere.")


@pytest.mark.parametrize("command", ["run", "shell"])
def test_a_byte_order_mark_is_no_part_of_a_script(xpsql: Command, tmp_path: Path, command: str) -> None:
    script = b"\xef\xbb\xbfSELECT 5 AS x"
    (tmp_path / "job.sql").write_bytes(script)
    arguments = ["run", str(tmp_path / "job.sql")] if command == "run" else ["shell"]
    assert xpsql(*arguments, "--format", "csv", input=script).stdout == "x\n5\n"


def test_a_failed_statement_shows_its_line_with_a_caret(xpsql: Command, tmp_path: Path) -> None:
    file = tmp_path / "job.sql"
    file.write_text("SELECT 1 AS x;\n\tTRAIN MODEL m\n\t USING xftlr AS SELECT 1\n", encoding="utf-8")
    result = xpsql("run", str(file))
    assert result.exit_code == 1
    assert result.stdout == ""
    reported, *excerpt = result.stderr.splitlines()
    assert reported.startswith(f"Error ({file}, line 3, column 9): There is no algorithm 'xftlr'. Did you mean xftrl? Valid: ")
    assert excerpt == [
        "    3 |   USING xftlr AS SELECT 1",
        "      |         ^^^^^",
    ]


def test_a_long_line_is_shown_around_what_is_wrong(xpsql: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    result = xpsql("sql", f"SELECT {'1, ' * 10_000} * FROM nowhere WHERE {'x AND ' * 10_000} y")
    assert result.stderr.splitlines()[1:] == [
        "    1 | …  * FROM nowhere WHERE x AND x…",
        "      |           ^^^^^^^",
    ]


def test_carets_stand_under_what_is_wrong_after_wide_characters(xpsql: Command) -> None:
    assert xpsql("sql", "SELECT '中文' AS x FROM nowhere").stderr.splitlines()[1:] == [
        "    1 | SELECT '中文' AS x FROM nowhere",
        "      | " + " " * 24 + "^^^^^^^",
    ]


def test_results_before_a_failed_statement_are_written(xpsql: Command) -> None:
    result = xpsql("sql", "SELECT 1 AS x; SELECT * FROM nowhere; SELECT 2")
    assert (result.exit_code, result.stdout) == (1, "x\n-\n1\n")
    assert result.stderr.startswith("Error (line 1, column 30): There is no table nowhere.\n")


def test_an_unknown_model_is_pointed_at(xpsql: Command) -> None:
    result = xpsql("sql", "CONTINUE MODEL absent AS SELECT 1 AS label")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Error (line 1, column 16): There is no model absent. Valid: none.",
        "    1 | CONTINUE MODEL absent AS SELECT 1 AS label",
        "      | " + " " * 15 + "^" * 6,
    ]


def test_an_error_that_is_not_ours_is_one_line_unless_debugging(xpsql: Command) -> None:
    reported = xpsql("sql", "SELECT missing").stderr
    first = reported.partition("\n")[0]
    assert first.startswith("Error (line 1, column 1): duckdb failed: BinderException: ")
    assert first.endswith("report the statement with the traceback that --debug shows.")
    assert xpsql("sql", "SELECT missing", "--debug").stderr.startswith("Traceback (most recent call last)")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "no_such_file.sql"),
        ("sql",),
        ("sql", "SELECT 1", "-D", "novalue"),
        ("sql", "SELECT 1", "-D", "=x"),
        ("sql", "SELECT 1", "--format", "xml"),
        ("sql", "SELECT 1", "--engine", "oracle"),
        ("fly",),
    ],
)
def test_wrong_usage_is_2(xpsql: Command, arguments: tuple[str, ...]) -> None:
    result = xpsql(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_a_file_that_is_no_text_is_wrong_usage(xpsql: Command, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\xff\xfe\x00")
    result = xpsql("run", str(tmp_path / "model.bin"))
    assert result.exit_code == 2
    assert "is not UTF-8 text" in result.stderr


def test_settings_of_spark_are_refused_by_the_embedded_engine(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["sql", "SELECT 1", "--engine", "duckdb", "--conf", "a=b", "--warehouse", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: The engine duckdb has no options, got conf")
    assert CliRunner().invoke(main, ["sql", "SELECT 1", "--conf", "a"]).exit_code == 2


def test_an_interrupt_is_130(xpsql: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Session, text: str, variables: object, parameters: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "run", interrupted)
    result = xpsql("sql", "SELECT 1")
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")


def test_an_interrupt_tells_how_to_go_on(xpsql: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Session, text: str, variables: object, parameters: object) -> None:
        stopped = KeyboardInterrupt()
        stopped.add_note("RESUME MODEL m goes on.")
        raise stopped

    monkeypatch.setattr(Session, "run", interrupted)
    result = xpsql("sql", "SELECT 1")
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\nRESUME MODEL m goes on.\n")


def test_the_version_is_the_distributions(xpsql: Command) -> None:
    assert xpsql("--version").stdout == f"xpsql {version('xpsql')}\n"


def test_an_empty_line_stands_between_tables_and_in_no_other_format(xpsql: Command) -> None:
    assert xpsql("sql", "SELECT 1 AS x; SELECT 2 AS y").stdout == "x\n-\n1\n\ny\n-\n2\n"
    assert xpsql("sql", "SELECT 1 AS x; SELECT 2 AS y", "--format", "csv").stdout == "x\n1\ny\n2\n"


def test_help_cuts_no_sentence_of_a_command() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output.partition("Commands:")[2]
    assert [line for line in shown.splitlines() if line.endswith("...")] == []
    for name in main.list_commands(Context(main)):
        shown = CliRunner().invoke(main, [name, "--help"]).output
        assert [line for line in shown.splitlines() if len(line) > 80] == [], name
