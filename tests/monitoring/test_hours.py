"""`xpsql monitor` by hour: Poisson intervals of what was predicted by what came, and an alarm that takes two hours running."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy.stats import poisson as law

import xpsql
from tests.cases import lengthy
from xpsql.platform.cli import main
from xpsql.platform.errors import StatementError
from xpsql.platform.monitoring.hours import Hourly, poisson, twice_outside
from xpsql.platform.progress import SilentReporter

START = datetime(2026, 3, 1, tzinfo=UTC)
A_HOUR = 4_000


def by_hour(rates: Sequence[float], rows: int = A_HOUR) -> pa.Table:
    """Return hours of predictions of 0.2 whose labels are 1 at some rates."""
    random = np.random.default_rng(0)
    times = [START + timedelta(hours=hour, minutes=1) for hour in range(len(rates)) for _ in range(rows)]
    clicks = np.concatenate([random.permutation(np.arange(rows) < rate * rows) for rate in rates]).astype(np.int64)
    hours = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table({"hour": [one.replace(minute=0) for one in times], "served_at": hours, "click": clicks})


def table_of(rates: Sequence[float], rows: int = A_HOUR) -> pa.Table:
    found = by_hour(rates, rows)
    return Hourly(("click",), "classes").table(
        found.append_column("predicted_click", pa.array(np.full(len(found), 0.2))).set_column(
            0, "hour", found["hour"].cast(pa.timestamp("us", "UTC"))
        )
    )


@pytest.mark.parametrize("count", [0, 1, 7, 500])
def test_an_interval_of_a_count_is_that_of_the_law(count: int) -> None:
    low, high = poisson(count)
    assert law.cdf(count, high) == pytest.approx(0.025)
    assert law.sf(count - 1, low) == pytest.approx(0.025 if count else 1)


def test_intervals_cover_the_truth_in_95_of_100_hours() -> None:
    draws = np.random.default_rng(1).poisson(40, 2000)
    covered = [low <= 40 <= high for low, high in map(poisson, draws.tolist())]
    assert 0.94 < np.mean(covered) < 0.98


@pytest.mark.parametrize(
    ("rates", "rows", "alarms"),
    [
        ([0.2, 0.2, 0.2], A_HOUR, False),
        ([0.2, 0.4, 0.2], A_HOUR, False),  # one hour
        ([0.4, 0.2, 0.4], A_HOUR, False),  # two, not running
        ([0.4, 0.1, 0.2], A_HOUR, False),  # on both sides
        ([0.2, 0.4, 0.4], A_HOUR, True),
        ([0.1, 0.1, 0.2], A_HOUR, True),
        ([0.0, 0.0, 0.2], A_HOUR, True),
        ([0.4, 0.4, 0.4], 10, False),  # too few to say
        ([0.21, 0.21, 0.21], A_HOUR, False),  # within the tolerance
    ],
)
def test_an_alarm_takes_two_hours_running_beyond_chance_and_tolerance(rates: Sequence[float], rows: int, alarms: bool) -> None:
    assert (twice_outside(table_of(rates, rows), 0.1) is not None) == alarms


def test_labels_that_are_no_counts_have_no_intervals() -> None:
    rows = pa.table({"hour": pa.array([START], pa.timestamp("us", "UTC")), "y": [1.5], "predicted_y": [1.0]})
    found = Hourly(("y",), "numbers").table(rows)
    assert found["pcopc_low"].to_pylist() == [None]
    with pytest.raises(StatementError, match="--tolerance is for labels that are 0 or 1, or counts"):
        twice_outside(found, 0.1)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of a model that predicts 0.2, and a log `served` of three hours, the last two of which have 0.4."""
    folder = tmp_path_factory.mktemp("hours")
    x = pa.array(np.where(np.arange(3 * A_HOUR) % 2, "a", "b"))
    pq.write_table(by_hour([0.2, 0.2, 0.2]).append_column("x", x), folder / "old.parquet")
    rows = by_hour([0.2, 0.4, 0.4]).append_column("x", x)
    ids = pa.array(np.arange(len(rows)).astype(str))
    pq.write_table(rows.select(["served_at", "x"]).append_column("served_request", ids), folder / "served.parquet")
    pq.write_table(rows.select(["click"]).append_column("served_request", ids), folder / "clicks.parquet")
    with xpsql.connect(folder / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl LABEL click AS SELECT x, click FROM parquet.`{folder}/old.parquet`")
    return folder


def monitored(folder: Path, *arguments: str) -> Any:
    given = ("monitor", "m", "--warehouse", str(folder / "warehouse"), "--data", f"parquet.`{folder}/served.parquet`")
    return CliRunner().invoke(main, [*given, *arguments])


@lengthy
def test_monitor_shows_hours_and_alarms_after_two(warehouse: Path) -> None:
    labels = ("--labels", f"SELECT * FROM parquet.`{warehouse}/clicks.parquet`")
    calm = monitored(warehouse, *labels, "--format", "json")
    assert calm.exit_code == 0, calm.output
    found = json.loads(calm.stdout)
    assert [row["hour"][:16] for row in found["hours"]] == [f"2026-03-01 0{hour}:00" for hour in range(3)]
    assert [row["pcopc"] for row in found["hours"]] == pytest.approx([1, 0.5, 0.5], abs=0.15)
    assert sum(row["examples"] for row in found["hours"]) == found["metrics"]["examples"]
    assert all(row["pcopc_low"] < row["pcopc"] < row["pcopc_high"] and row["ece"] is not None for row in found["hours"])
    assert found["hours"][1]["logloss"] > found["hours"][0]["logloss"]
    alarm = monitored(warehouse, *labels, "--tolerance", "0.1")
    assert alarm.exit_code == 3, alarm.output
    assert "Alarm: pcopc of click leaves 1 +- 0.1 in two hours running: 0.4" in alarm.stderr
    assert "at 2026-03-01 02:00" in alarm.stderr
    assert monitored(warehouse, *labels, "--tolerance", "0.6").exit_code == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [(["--tolerance", "0.1"], "need rows with labels"), (["--time", "x"], "need rows with labels")],
)
def test_hours_without_labels_are_refused(warehouse: Path, given: list[str], message: str) -> None:
    found = monitored(warehouse, *given)
    assert found.exit_code == 1
    assert message in found.stderr
