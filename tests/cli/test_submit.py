"""`xpsql submit` and the entry for spark-submit: the command, the archive, and a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from xpsql.platform.cli import packing, submit
from xpsql.platform.cli.commands import main
from xpsql.platform.cli.journal import VARIABLE
from xpsql.platform.cli.packing import normal, package_files, required, wanted, write
from xpsql.platform.cli.submit import entry, spark_submit, submission


def test_a_submission_on_one_machine_sends_nothing(spark: SparkSession) -> None:
    command, environment = submission("local[2]", {"spark.log.level": "INFO"}, "python3")
    settings = ["--conf", "spark.log.level=INFO", "--conf", "spark.ui.showConsoleProgress=false"]
    assert command == [spark_submit(), "--master", "local[2]", *settings, str(entry())]
    assert environment["PYSPARK_PYTHON"] == environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.parametrize(("ends", "code"), [([KeyboardInterrupt, 130], 130), ([1], 1), ([-9], 137)])
def test_a_submission_that_ctrl_c_reaches_ends_by_itself(
    ends: list[object], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.sql").write_text("SELECT 1")
    monkeypatch.setattr(submit, "submission", lambda master, conf, python: (["spark-submit"], {}))
    monkeypatch.setattr(submit, "driver_hears", lambda process: True)
    started = mock.Mock(wait=mock.Mock(side_effect=ends))
    monkeypatch.setattr(subprocess, "Popen", lambda command, env: started)
    assert CliRunner().invoke(main, ["submit", str(tmp_path / "job.sql")]).exit_code == code
    assert started.mock_calls == [mock.call.wait()] * len(ends)  # it was not killed


@pytest.mark.parametrize("program", ["signal.signal(signal.SIGINT, signal.default_int_handler)", "pass"])
def test_a_driver_hears_ctrl_c_where_it_has_a_handler_of_it(program: str) -> None:
    deaf = "signal.signal(signal.SIGINT, signal.SIG_IGN)"  # as `submit.started` starts it
    text = f"import signal, time; {deaf}; {program}; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-S", "-c", text], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert submit.driver_hears(process) == (program != "pass")
        process.kill()


@pytest.mark.parametrize(("restarts", "kept"), [([], False), (["--restart", "1"], True)])
def test_a_submission_without_restart_has_no_journal(
    restarts: list[str], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.sql").write_text("SELECT 1")
    code = f"import os, sys; sys.exit(3 if {VARIABLE!r} in os.environ else 4)"
    monkeypatch.setattr(submit, "submission", lambda master, conf, python: ([sys.executable, "-S", "-c", code], {}))
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
    assert not names & {"duckdb", "pyspark", "pytest", "rich"}
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


def test_spark_submit_runs_the_entry_on_the_engine_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("CREATE TABLE t AS SELECT 1 AS a; SELECT a + ${n} AS b, version() AS spark FROM t")
    command, environment = submission("local[1]", {"spark.ui.enabled": "false", "spark.driver.memory": "512m"}, "python3")
    arguments = ["run", str(tmp_path / "job.sql"), "-D", "n=2", "--format", "json", "--warehouse", str(tmp_path / "warehouse")]
    done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["b"] == 3
    assert row["spark"].startswith(spark.version)
    assert "no metadata directory" not in done.stderr  # what Spark warns of the tables of a warehouse
