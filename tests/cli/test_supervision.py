"""`--restart n`: what is started again and what is not, and a training whose process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cases import lengthy, slow
from xpsql.platform.cli.supervision import ended, supervise

XPSQL = [sys.executable, "-m", "xpsql"]


KILLED = -signal.SIGKILL


def counting(tmp_path: Path, *endings: int) -> tuple[list[str], Path]:
    """Return a command that ends in these ways, one after the other (-n: by signal n), and the file that counts its starts."""
    starts = tmp_path / "starts"
    code = f"""
import os, sys
with open({str(starts)!r}, "a+") as file:
    file.write("x")
    file.seek(0)
    ending = {endings!r}[len(file.read()) - 1]
if ending < 0:
    os.kill(os.getpid(), -ending)
sys.exit(ending)
"""
    return [sys.executable, "-S", "-c", code], starts


@pytest.mark.parametrize(
    ("endings", "code", "starts", "pauses"),
    [
        ([KILLED, 75, 0], 0, 3, [1, 2]),
        ([KILLED, 1], 1, 2, [1]),
        ([1], 1, 1, []),
        ([2], 2, 1, []),
        ([130], 130, 1, []),
        ([143], 143, 1, []),
        ([KILLED] * 4, 137, 4, [1, 2, 4]),
    ],
)
def test_what_died_is_started_again_and_what_failed_is_not(
    endings: list[int], code: int, starts: int, pauses: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, counted = counting(tmp_path, *endings)
    paused: list[float] = []
    assert supervise(command, os.environ, 3, paused.append) == code
    assert (len(counted.read_text()), paused) == (starts, pauses)
    reported = capsys.readouterr().err
    assert reported.count("Starting again") == len(pauses)
    assert ("was started again 3 times" in reported) == (code == 137)


def test_sigterm_is_passed_on_and_ends_the_run(tmp_path: Path) -> None:
    code = (
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\nprint('up', flush=True)\nsignal.pause()"
    )
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert ended(process) == 143
    process.stdout.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists(), reason="needs the children of /proc")
@slow
def test_a_training_that_is_killed_is_resumed_and_each_row_counts_once(tmp_path: Path) -> None:
    rows = "SELECT CAST(id % 1000 AS STRING) AS s, id % 2 AS label FROM range(100000)"
    script = f"""\
CREATE TEMPORARY VIEW log AS {rows};
TRAIN MODEL m USING xftrl WITH (workers = 1, passes = 20, checkpoint_seconds = 0.2) AS SELECT * FROM log;
SELECT sum(count) AS c FROM ML.WEIGHTS(MODEL m) WHERE slot = 's'"""
    (tmp_path / "job.sql").write_text(script)
    command = [
        *XPSQL,
        "run",
        str(tmp_path / "job.sql"),
        "--restart",
        "2",
        "--format",
        "json",
        "--warehouse",
        str(tmp_path / "w"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        while "examples" not in process.stderr.readline():  # some are learned
            pass
        (child,) = children(process.pid)
        os.kill(child, signal.SIGKILL)
        rest = process.stderr.read()
        assert process.wait(timeout=120) == 0, rest
        answers = [json.loads(line) for line in process.stdout.read().splitlines() if line.strip()]
    assert "The process died of SIGKILL in the statement at line 2, TRAIN MODEL m" in rest
    assert answers[-1] == {"c": 2_000_000}


@lengthy
@pytest.mark.parametrize(
    ("arguments", "environment", "why"),
    [
        (["run", "-", "--restart", "1"], {}, "give it a file in place of -"),
        (["run", "job.sql", "--restart", "1"], {"PYSPARK_GATEWAY_PORT": "1"}, "give it to xpsql submit"),
    ],
)
def test_what_cannot_be_started_again_is_refused(
    arguments: list[str], environment: dict[str, str], why: str, tmp_path: Path
) -> None:
    (tmp_path / "job.sql").write_text("SELECT 1")
    env = {**os.environ, **environment}
    done = subprocess.run(
        [*XPSQL, *arguments], cwd=tmp_path, env=env, input="SELECT 1", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert why in done.stderr
