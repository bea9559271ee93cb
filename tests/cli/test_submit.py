"""`xpsql submit` and the entry for spark-submit: the command, the archive, and a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.cases import lengthy, slow
from xpsql.platform.cli import packing, submit
from xpsql.platform.cli.commands import main
from xpsql.platform.cli.journal import VARIABLE
from xpsql.platform.cli.packing import normal, package_files, required, wanted, write
from xpsql.platform.cli.submit import entry, spark_submit, submission


def test_a_submission_on_one_machine_sends_nothing(spark: SparkSession) -> None:
    command, environment = submission("local[2]", {"spark.log.level": "INFO"}, "python3", "job.sql", ["-D", "n=1"])
    settings = ["--conf", "spark.log.level=INFO", "--conf", "spark.ui.showConsoleProgress=false"]
    assert command == [spark_submit(), "--master", "local[2]", *settings, str(entry()), "run", "job.sql", "-D", "n=1"]
    assert environment["PYSPARK_PYTHON"] == environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


HEARING = """
import signal, sys
def end(*_):
    print("Ended in order.", flush=True)
    sys.exit(130)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
signal.pause()
"""
DEAF = "import signal; print('up', flush=True); signal.pause()"
SUBMITTING = """
import os, sys
from xpsql.platform.cli.submit import driver_of, started
from xpsql.platform.cli.supervision import supervise
java = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-S', '-c', sys.argv[1]]))"
sys.exit(supervise([sys.executable, "-S", "-c", java, sys.argv[1]], os.environ, 0, print, started, driver_of))
"""


def test_ctrl_z_stops_a_submission_until_it_goes_on() -> None:
    command = [sys.executable, "-c", SUBMITTING, HEARING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        for sent in (signal.SIGCONT, signal.SIGINT):
            process.send_signal(sent)
        assert process.stdout.read() == "Ended in order.\n"


@lengthy
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_group", [False, True])  # by kill, or by the terminal
@pytest.mark.parametrize("driver", [HEARING, DEAF])
def test_a_submission_that_is_interrupted_ends_in_one_sentence(sent: signal.Signals, to_group: bool, driver: str) -> None:
    command = [sys.executable, "-c", SUBMITTING, driver]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        (os.killpg if to_group else os.kill)(process.pid, sent)
        said = process.stdout.read()
        code = process.wait(timeout=60)
    ended_in_order = driver is HEARING
    assert said == ("Ended in order.\n" if ended_in_order else "Interrupted.\n")
    assert code == (130 if ended_in_order else 128 + sent)


def test_a_driver_on_the_cluster_gets_the_script_the_archive_and_the_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "environment_archive", lambda: "env.zip")
    monkeypatch.setenv("XPSQL_WAREHOUSE", "/shared/w")
    command, _ = submission("yarn", {submit.MODE: "cluster"}, "python3.12", "jobs/job.sql", ["--resume"])
    assert command[-6:] == [str(entry()), "run", "job.sql", "--resume", "--warehouse", "/shared/w"]
    assert command[command.index("--files") + 1] == "jobs/job.sql"
    assert command[command.index("--archives") + 1] == "env.zip#xpsql_environment"
    for name in ("spark.executorEnv", "spark.yarn.appMasterEnv", "spark.kubernetes.driverEnv"):
        assert f"{name}.PYTHONPATH=xpsql_environment" in command
    assert {"spark.pyspark.python=python3.12", "spark.pyspark.driver.python=python3.12"} <= set(command)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--master", "yarn"], "give --warehouse a folder that all machines of the cluster share"),
        (["--master", "spark://host:7077", "--warehouse=/w"], "Spark starts no driver in Python at spark://host:7077"),
        (["--master", "local[2]", "--warehouse", "/w"], "Spark starts no driver in Python at local[2]"),
        (["--master", "yarn", "--restart", "1"], "the cluster restarts it"),
    ],
)
def test_a_driver_on_the_cluster_that_cannot_be_is_refused(
    arguments: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XPSQL_WAREHOUSE", raising=False)
    (tmp_path / "job.sql").write_text("SELECT 1")
    done = CliRunner().invoke(main, ["submit", str(tmp_path / "job.sql"), "--deploy-mode", "cluster", *arguments])
    assert done.exit_code != 0
    assert why in " ".join(done.stderr.split())


@pytest.mark.parametrize(("restarts", "kept"), [([], False), (["--restart", "1"], True)])
def test_a_submission_without_restart_has_no_journal(
    restarts: list[str], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.sql").write_text("SELECT 1")
    code = f"import os, sys; sys.exit(3 if {VARIABLE!r} in os.environ else 4)"
    monkeypatch.setattr(submit, "submission", lambda *_: ([sys.executable, "-S", "-c", code], {}))
    done = CliRunner().invoke(main, ["submit", *restarts, str(tmp_path / "job.sql")])
    assert done.exit_code == (3 if kept else 4)


def test_archives_of_jobs_that_may_still_run_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, week = tmp_path / "own.py", 7 * 24 * 3600
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packing, "package_files", lambda: [("own.py", own)])
    monkeypatch.setattr(packing, "required", lambda roots: [])
    archives = []
    for text in ("first", "second", "the third"):
        own.write_text(text)
        archives.append(packing.environment_archive())
        os.utime(archives[-1], (0, time.time() - week + 60))
    assert [archive.exists() for archive in archives] == [True, True, True]
    assert packing.environment_archive() == archives[2]  # in use again
    cut = archives[0].with_suffix(".77")  # by a kill
    cut.write_bytes(b"a part")
    for archive in (*archives[:2], cut):
        os.utime(archive, (0, time.time() - week - 60))
    packing.environment_archive()
    assert [archive.exists() for archive in (*archives, cut)] == [False, False, True, False]
    assert time.time() - archives[2].stat().st_mtime < 60
    with zipfile.ZipFile(archives[2]) as archive:
        assert archive.read("own.py") == b"the third"


def test_the_archive_has_what_executors_import(tmp_path: Path) -> None:
    names = {package.name.lower() for package in required(["xpsql"])}
    assert {"numpy", "jax", "jaxlib", "optax", "pyarrow", "sqlglot", "scipy"} <= names
    assert not names & {"duckdb", "pyspark", "pytest", "prompt-toolkit"}
    write(dict(package_files()), tmp_path / "own.zip")
    with zipfile.ZipFile(tmp_path / "own.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    assert len(list((tmp_path / "unpacked" / "xpsql" / "algorithms" / "layers").glob("_lookups.*.so"))) == 1
    modules = "from xpsql.platform.ps import _native; from xpsql.warehouse import _mapping"
    program = f"import xpsql; {modules}; print(xpsql.__version__, _native.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'unpacked')!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert str(tmp_path / "unpacked") in done.stdout


@pytest.mark.parametrize(
    ("requirement", "ours", "needed"),
    [
        ("numpy>=2.0", True, True),
        ("pandas<3,>=2.2; extra == 'spark'", True, True),
        ('pandas<3,>=2.2; extra == "spark"', False, False),
        ("pytest>=8; extra == 'dev'", True, False),
        ("tzdata; sys_platform == 'win32'", False, True),
    ],
)
def test_requirements_hold_without_extras_but_ours(requirement: str, ours: bool, needed: bool) -> None:
    assert wanted(requirement, ours) == needed
    assert normal("Opt_Einsum>=3.3; x") == "opt-einsum"


@pytest.mark.parametrize("editable", [False, True])
def test_a_plugin_is_sent_with_what_it_requires(editable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, source = tmp_path / "site", tmp_path / ("source" if editable else "site")
    module, reported = source / "noise" / "__init__.py", site / "noise_plugin-1.0.dist-info"
    for path in (module, reported / "METADATA"):
        path.parent.mkdir(parents=True)
    module.write_text("")
    (reported / "METADATA").write_text(
        "Name: noise-plugin\nVersion: 1.0\nRequires-Dist: xpsql\nRequires-Dist: sortedcontainers\n"
    )
    (reported / "RECORD").write_text("noise_plugin-1.0.dist-info/METADATA,,\nnoise_plugin-1.0.dist-info/entry_points.txt,,\n")
    (reported / "entry_points.txt").write_text("[xpsql.operators]\nnoise = noise:NOISE\n")
    for folder in {site, source}:
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names: set[str] = set()

    def listed(files: dict[str, Path], archive: Path) -> None:  # to pack hundreds of megabytes takes long
        names.update(files)
        archive.touch()

    monkeypatch.setattr(packing, "write", listed)
    packing.environment_archive()
    assert {"noise/__init__.py", f"{reported.name}/entry_points.txt", "sortedcontainers/__init__.py"} <= names
    assert {"xpsql/__init__.py", "xgboost/__init__.py"} <= names


@slow
def test_spark_submit_runs_the_entry_on_the_engine_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("CREATE TABLE t AS SELECT 1 AS a; SELECT a + ${n} AS b, version() AS spark FROM t")
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "512m"}
    arguments = ["-D", "n=2", "--format", "json", "--warehouse", str(tmp_path / "warehouse")]
    command, environment = submission("local[1]", settings, "python3", str(tmp_path / "job.sql"), arguments)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["b"] == 3
    assert row["spark"].startswith(spark.version)
    assert "no metadata directory" not in done.stderr  # what Spark warns of the tables of a warehouse
