"""The command as a process of its own, on the embedded engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import costly, costly_after_first, quick, slow

XPSQL = [sys.executable, "-m", "xpsql"]
FULL = Path("/dev/full")


def xpsql(warehouse: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XPSQL_WAREHOUSE": str(warehouse), **environment}
    return subprocess.run([*XPSQL, *arguments], env=env, capture_output=True, text=True, timeout=120)


def test_a_query_answers_on_stdout(tmp_path: Path) -> None:
    done = xpsql(tmp_path, "sql", "SELECT 1 AS x", "--format", "json")
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"x": 1}, "")
    assert list(tmp_path.iterdir()) == []


@costly
@pytest.mark.parametrize("statement", quick(["SELECT * FROM nowhere", "TRAIN MODEL"], ["TRAIN MODEL"]))
def test_a_failed_statement_is_1_without_traceback(tmp_path: Path, statement: str) -> None:
    done = xpsql(tmp_path, "sql", statement)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error")
    assert "Traceback" not in done.stderr


@costly
def test_a_failed_statement_shows_its_traceback_when_debugging(tmp_path: Path) -> None:
    done = xpsql(tmp_path, "sql", "SELECT * FROM nowhere", XPSQL_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_wrong_usage_is_2(tmp_path: Path) -> None:
    assert xpsql(tmp_path, "run", str(tmp_path / "absent.sql")).returncode == 2


@costly
def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    command = [*XPSQL, "sql", "SELECT id FROM range(1000000)", "--format", "csv", "--warehouse", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "id\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141


@costly
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this machine")
@pytest.mark.parametrize("format", quick(["table", "json", "csv", "arrow"], ["csv", "arrow"]))
def test_output_that_cannot_be_written_is_1_and_says_why(tmp_path: Path, format: str) -> None:
    command = [*XPSQL, "sql", "SELECT 1 AS x", "--format", format, "--warehouse", str(tmp_path)]
    with FULL.open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    why = "No space left on device. Free space where it goes, or send it elsewhere."
    assert (done.returncode, done.stderr) == (1, f"Error: Cannot write the result to stdout: {why}\n")


@costly
@pytest.mark.parametrize("format", quick(["table", "json", "csv"], ["table"]))
def test_a_text_that_stdout_cannot_encode_is_1_and_says_why(tmp_path: Path, format: str) -> None:
    done = xpsql(tmp_path, "sql", "SELECT '\u20ac' AS x", "--format", format, PYTHONIOENCODING="latin-1")
    why = "its encoding, latin-1, has no '\\u20ac'. Choose a locale of UTF-8, such as LC_ALL=C.UTF-8."
    assert (done.returncode, done.stderr) == (1, f"Error: Cannot write the result to stdout: {why}\n")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this machine")
@pytest.mark.parametrize("arguments", [["--version"], ["sql", "--help"]])
def test_help_that_cannot_be_written_is_1_and_says_why(arguments: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([*XPSQL, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("Error: Cannot write to stdout: No space left on device.")


@costly_after_first
@pytest.mark.parametrize("arguments", ["--help", "sql 'SELECT 1 AS x'", "sql 'SELECT 1 AS x' --format arrow"])
def test_output_that_is_closed_is_1_where_something_is_written(tmp_path: Path, arguments: str) -> None:
    command = f"exec {sys.executable} -m xpsql {arguments} >&-"
    env = {**os.environ, "XPSQL_WAREHOUSE": str(tmp_path)}
    done = subprocess.run(command, shell=True, env=env, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "to stdout: Bad file descriptor." in done.stderr


@costly
def test_output_that_is_closed_is_none_of_a_statement_without_rows(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m xpsql sql 'CREATE TABLE t AS SELECT 1 AS x' --warehouse {tmp_path} >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@costly_after_first
@pytest.mark.parametrize("arguments", ["sql 'SELECT 1 AS x'", "sql 'SELECT * FROM parquet.`x`' --warehouse {}", "serve m"])
def test_a_folder_that_was_removed_under_a_command_is_told(tmp_path: Path, arguments: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m xpsql {arguments.format(tmp_path)}"
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(command, shell=True, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "The folder that this process runs in was removed. Change to one that is there (cd)" in done.stderr


@costly
@pytest.mark.parametrize("name", quick(["cuda", "nonsense"], ["cuda"]))
def test_a_platform_that_jax_does_not_have_is_told_by_the_variable_that_chose_it(tmp_path: Path, name: str) -> None:
    command = ["sql", "TRAIN MODEL m USING xftrl AS SELECT 1 AS label, 'u' AS u", "--warehouse", str(tmp_path)]
    env = {**os.environ, "JAX_PLATFORMS": name}
    done = subprocess.run([*XPSQL, *command], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f"JAX_PLATFORMS is '{name}', which JAX cannot use: " in done.stderr
    assert "Set it to cpu, or leave it out." in done.stderr


def test_an_interrupt_while_modules_are_imported_is_130() -> None:
    code = """
import sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "xpsql.platform.session":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
import xpsql.platform.cli
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_an_interrupt_while_arguments_are_read_is_130() -> None:
    code = """
import sys
from xpsql.platform.cli import commands, run
def interrupted(*_):
    raise KeyboardInterrupt
commands.sql.params[0].process_value = interrupted
sys.argv = ["xpsql", "sql", "SELECT 1"]
run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@costly
@pytest.mark.parametrize(
    ("sent", "code", "options"),
    [
        pytest.param(signal.SIGINT, 130, "workers = 1", marks=slow),
        (signal.SIGTERM, 143, "workers = 2, sync = 'bsp'"),
    ],
)
def test_an_interrupted_training_leaves_a_checkpoint_and_no_version_that_is_ready(
    tmp_path: Path, sent: signal.Signals, code: int, options: str
) -> None:
    rows = "SELECT CAST(id AS STRING) AS s, id % 2 AS label FROM range(100000)"
    script = f"TRAIN MODEL m USING xftrl WITH (passes = 10000, {options}) AS {rows}"
    command = [*XPSQL, "sql", script, "--warehouse", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("m v1")
        assert "examples" in process.stderr.readline()  # some are learned
        process.send_signal(sent)
        rest = process.stderr.read()
        assert process.wait(timeout=60) == code, rest
    assert "The checkpoint has" in rest
    assert "RESUME MODEL m continues from it" in rest
    assert "Traceback" not in rest
    assert "RESUME MODEL continues after" in xpsql(tmp_path, "sql", "SHOW MODELS", "--format", "json").stdout
    shown = xpsql(tmp_path, "sql", "SELECT * FROM ML.EVALUATE(MODEL m)")
    assert shown.returncode == 1


def test_a_process_in_the_background_of_a_script_hears_no_ctrl_c_and_ends_when_it_is_terminated(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from xpsql.platform.cli import run; run()"
    command = [sys.executable, "-c", deaf, "metrics", "--port", "0", "--warehouse", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Metrics at")
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
