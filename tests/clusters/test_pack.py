"""What `xpsql pack` writes is all that machines with Spark and a bare Python lack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.clusters.standalone import standalone
from tests.docs.blocks import blocks
from tests.java import OPTIONS
from xpsql.platform.cli import main
from xpsql.platform.cli.submit import entry, spark_submit

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install a JDK, version 17 or newer")

SECONDS = 400
LOG = "SELECT id % 7 AS user, CAST(id % 2 = 0 AS INT) AS click FROM range(2000)"
TRAIN = f"TRAIN MODEL m USING xftrl LABEL click WITH (workers = 1, shards = 1) AS {LOG}"
COUNTED = f"{TRAIN}; SELECT count(*) AS `é` FROM ML.WEIGHTS(MODEL m)"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "executors.zip"
    done = CliRunner().invoke(main, ["pack", str(path)])
    assert done.exit_code == 0, done.stderr
    words = done.stdout.split()
    assert words == ["--archives", f"{path}#xpsql_environment", "--conf", "spark.executorEnv.PYTHONPATH=xpsql_environment"]
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of a machine that has no packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    return str(folder / "bin" / "python")


def environment(**given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **given}


def test_the_session_of_the_page_trains_on_executors_without_packages(archive: Path, bare: str, tmp_path: Path) -> None:
    (page,) = [block.text for block in blocks("docs/clusters.md") if "spark.archives" in block.text]
    options = (
        f'builder = builder.config("spark.executor.memory", "512m").config("spark.executor.extraJavaOptions", "{OPTIONS}")'
    )
    with standalone(tmp_path) as master:
        for written, here in {
            "spark://host:7077": master,
            "executors.zip": str(archive),
            "/shared/warehouse": str(tmp_path / "warehouse"),
            "session =": f"{options}\nsession =",
        }.items():
            assert written in page
            page = page.replace(written, here)
        program = f"{page}\nprint(session.sql({COUNTED!r}).fetchall())"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment(PYSPARK_PYTHON=bare),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "[(8,)]"


def test_a_driver_that_a_cluster_starts_needs_no_more_than_the_archive(archive: Path, bare: str, tmp_path: Path) -> None:
    container = tmp_path / "container"  # what YARN makes for a driver: the program, the script, the archive unpacked
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(container / "xpsql_environment")
    shutil.copy(entry(), container)
    (container / "job.sql").write_text(COUNTED, encoding="utf-8")
    command = [
        spark_submit(),
        "--master",
        "local[3]",
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        f"spark.pyspark.python={bare}",
    ]
    arguments = ["__main__.py", "run", "job.sql", "--quiet", "--warehouse", str(tmp_path / "warehouse")]
    done = subprocess.run(
        [*command, *arguments],
        cwd=container,
        env=environment(PYTHONPATH="xpsql_environment"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-3:] == ["é", "-", "8"]


def test_an_archive_that_spark_would_not_unpack_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["pack", str(tmp_path / "executors.bin")])
    assert done.exit_code == 1
    assert "call it executors.zip" in done.stderr
    assert list(tmp_path.iterdir()) == []
