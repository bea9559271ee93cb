"""ML.DATA_DRIFT, the gate and `xpsql monitor`: planted drift is found and named, and noise is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.notes import Notes
from tests.training.test_resume import interrupted, reported_at_once  # noqa: F401  a fixture
from xpsql.platform.cli import main
from xpsql.platform.errors import ModelError, StatementError, TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.profiles.stored import profiles_in

ROWS = 12_000
TRAINED = "TRAIN OR REPLACE MODEL m USING {} LABEL click IGNORE (day) {} AS SELECT * FROM parquet.`{}`"


def made(seed: int, unit: float = 1.0, null: float = 0.0, new: float = 0.0, zero: bool = False) -> pa.Table:
    """Return a log, with something wrong where that is asked for."""
    random = np.random.default_rng(seed)
    site, user, price = random.integers(0, 40, ROWS), random.zipf(1.3, ROWS) % 800, random.lognormal(2, 1, ROWS) * unit
    signal = np.sin(user * 1.7) + (site % 7 - 3) * 0.4 - 1
    sites = np.array([f"{'0' if zero else ''}{i}" for i in site], dtype=object)
    sites[random.random(ROWS) < new] = "brand new"
    return pa.table(
        {
            "click": (random.random(ROWS) < 1 / (1 + np.exp(-signal))).astype(np.int32),
            "day": pa.array((np.arange(ROWS) % 3).astype(np.int32)),
            "site": pa.array(sites.tolist()),
            "user": pa.array([f"u{i}" for i in user], mask=random.random(ROWS) < null),
            "price": price,
            "tags": [[f"t{t}" for t in random.integers(0, 9, k)] for k in random.integers(0, 4, ROWS)],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("logs")
    logs = {
        "same": made(1),
        "other": made(2),
        "units": made(3, unit=100),
        "nulls": made(4, null=0.05),
        "news": made(5, new=0.03),
        "zeros": made(6, zero=True),
    }
    for name, table in logs.items():
        pq.write_table(table, found / f"{name}.parquet", row_group_size=4000)
    return found


@pytest.fixture(scope="module")
def warehouse_of_m(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    found = tmp_path_factory.mktemp("warehouse")
    with xpsql.connect(found, reporter=SilentReporter()) as session:
        session.sql(TRAINED.format("xftrl", "", folder / "same.parquet"))
    return found


@pytest.fixture
def embedded(warehouse_of_m: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(warehouse_of_m, reporter=Notes()) as session:
        yield session


def drift(session: xpsql.Session, path: Path, more: str = "") -> dict[str, dict[str, Any]]:
    rows = session.sql(f"SELECT * FROM ML.DATA_DRIFT(MODEL m, (SELECT * FROM parquet.`{path}`){more})").arrow().to_pylist()
    return {row["slot"]: row for row in rows}


def test_another_sample_of_the_same_rows_is_no_drift(embedded: xpsql.Session, folder: Path) -> None:
    found = drift(embedded, folder / "other.parquet")
    assert {name: row["kind"] for name, row in found.items()} == {
        "site": "category", "user": "category", "price": "number", "tags": "category", "(click)": "prediction",
    }  # fmt: skip
    for name in ("site", "user", "price", "tags"):
        assert found[name]["drift"] < found[name]["noise"]
    assert 0 < found["user"]["new_share"] < 0.1
    assert (found["site"]["rows"], found["site"]["rows_before"]) == (ROWS, ROWS)


@pytest.mark.parametrize(
    ("log", "slot", "value"),
    [("units", "price", None), ("nulls", "user", "NULL"), ("news", "site", "brand new"), ("zeros", "site", None)],
)
def test_what_was_planted_is_found_and_named(
    embedded: xpsql.Session, folder: Path, log: str, slot: str, value: str | None
) -> None:
    found = drift(embedded, folder / f"{log}.parquet")
    assert found[slot]["js"] > 2 * found[slot]["noise"]
    for name in {"site", "user", "price", "tags"} - {slot}:
        assert found[name]["js"] < 2 * found[name]["noise"]
    if value is not None:
        assert found[slot]["top_changes"][0]["value"] == value
    assert found["user"]["null_share"] == pytest.approx(0.05 if log == "nulls" else 0, abs=0.01)
    assert found["site"]["new_share"] == pytest.approx({"news": 0.03, "zeros": 1.0}.get(log, 0), abs=0.01)


@costly
def test_predictions_are_compared_as_the_version_makes_them(folder: Path, tmp_path: Path) -> None:
    path = folder / "same.parquet"
    with xpsql.connect(tmp_path, reporter=Notes()) as session:
        session.sql(TRAINED.format("xftrl", "WITH (negatives_kept = 0.01)", path))
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{path}`")
        assert drift(session, path)["(click)"]["drift"] < 0.05


def test_days_are_measured_one_by_one(embedded: xpsql.Session, folder: Path) -> None:
    query = f"ML.DATA_DRIFT(MODEL m, (SELECT * FROM parquet.`{folder / 'news.parquet'}`), BY day)"
    rows = (
        embedded.sql(f"SELECT day, slot, rows, drift, noise FROM {query} WHERE slot = 'site' ORDER BY day").arrow().to_pylist()
    )
    assert [(row["day"], row["rows"]) for row in rows] == [(0, 4000), (1, 4000), (2, 4000)]
    assert all(row["drift"] > row["noise"] for row in rows)


@costly
def test_both_engines_profile_and_measure_the_same(folder: Path, tmp_path: Path, spark: SparkSession) -> None:
    found = []
    for name, engine in (("duckdb", "duckdb"), ("spark", spark)):
        with xpsql.connect(tmp_path / name, engine, SilentReporter()) as session:
            session.sql(TRAINED.format("xftrl", "WITH (workers = 1)", folder / "same.parquet"))
            found.append(drift(session, folder / "news.parquet"))
    one, other = found
    for name in ("site", "user", "price", "tags"):
        assert one[name] == other[name]


@costly
def test_the_gate_holds_a_version_whose_rows_moved(folder: Path, tmp_path: Path) -> None:
    gate = (
        "EVALUATE EVERY 10 BATCHES ON 5 BATCHES RELEASE WHEN drift.max < 0.2 AND drift(price) < 0.2 AND null_share(user) < 0.02"
    )
    with xpsql.connect(tmp_path, reporter=Notes()) as session:
        session.sql(TRAINED.format("xftrl", gate, folder / "same.parquet"))  # nothing to compare with: released
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{folder / 'other.parquet'}`")
        with pytest.raises(TrainingError, match=r"drift\.max is 0\.[89]\d*, drift\(price\) is 0\.[89]"):
            session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{folder / 'units.parquet'}`")
        with pytest.raises(TrainingError, match=r"null_share\(user\) is 0\.05"):
            session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{folder / 'nulls.parquet'}`")
        edges = [profiles_in(session.models.version("m", number))["price"].edges.tolist() for number in (1, 2)]
        assert edges[0] == edges[1]  # versions compare
        with pytest.raises(StatementError, match="slots are: site, user"):
            session.sql(TRAINED.format("xftrl", gate.replace("drift(price)", "drift(cost)"), folder / "same.parquet"))


@costly
def test_the_gate_compares_with_the_version_of_the_same_weekday(folder: Path, tmp_path: Path) -> None:
    gate = "EVALUATE EVERY 10 BATCHES ON 5 BATCHES RELEASE WHEN drift.max < 0.2 WITH (drift_to = 2)"
    with xpsql.connect(tmp_path, reporter=Notes()) as session:
        session.sql(TRAINED.format("xftrl", gate, folder / "same.parquet"))
        for day in ("units", "other", "units"):  # as every other day; the first has none to be compared with
            session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{folder / f'{day}.parquet'}`")
        with pytest.raises(TrainingError, match=r"drift\.max is 0\.[89]"):
            session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{folder / 'units.parquet'}`")


@lengthy
def test_a_training_that_was_interrupted_ends_with_the_same_profile(folder: Path, tmp_path: Path) -> None:
    statement = TRAINED.format("xftrl", "WITH (checkpoint_seconds = 0.001, workers = 1)", folder / "same.parquet")
    interrupted(tmp_path / "cut", statement)
    found = []
    for name, text in (("cut", "RESUME MODEL m"), ("whole", statement)):
        with xpsql.connect(tmp_path / name, reporter=SilentReporter()) as session:
            session.sql(text)
            (file,) = (session.models.version("m").folder / "profile").glob("*.parquet")
            table = pq.read_table(file)
            found.append(table.filter(pa.compute.equal(table["kind"], "category")))
    assert found[0].equals(found[1])


def test_a_version_without_a_profile_says_how_to_get_one(folder: Path, tmp_path: Path) -> None:
    with xpsql.connect(tmp_path, reporter=SilentReporter()) as session:
        session.sql(TRAINED.format("owlqn", "", folder / "same.parquet").replace("SELECT *", "SELECT click, day, site"))
        with pytest.raises(ModelError, match=r"owlqn learns from all rows at once\. TRAIN a model"):
            drift(session, folder / "other.parquet")


def monitored(warehouse: Path, *arguments: str) -> Any:
    return CliRunner().invoke(main, ["monitor", "m", "--warehouse", str(warehouse), *arguments])


def test_monitor_alarms_by_its_exit_code_and_tells_prometheus(warehouse_of_m: Path, folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "xpsql.prom"
    given = ["--data", f"parquet.`{folder / 'units.parquet'}`", "--format", "json", "--textfile", str(text)]
    fine = monitored(warehouse_of_m, *given, "--fail-when", "drift(site) > 0.1 OR pcopc > 5")
    assert fine.exit_code == 0, fine.output
    said = json.loads(fine.stdout)
    assert (said["model"], said["alarm"], said["slots"][0]["slot"]) == ("m", None, "price")
    assert said["metrics"]["examples"] == ROWS
    alarm = monitored(warehouse_of_m, *given, "--fail-when", "drift.max > 0.2 AND auc < previous.auc + 1")
    assert alarm.exit_code == 3
    assert "Alarm: drift.max > 0.2 AND auc < previous.auc + 1: drift.max is 0.9" in alarm.stderr
    lines = text.read_text().splitlines()
    assert 'xpsql_alarm{model="m",version="1"} 1' in lines
    assert any(re.fullmatch(r'xpsql_feature_drift\{model="m",version="1",slot="price"\} 0\.9\d+', line) for line in lines)
    assert all(line.startswith("#") or re.fullmatch(r'xpsql_\w+\{(\w+="[^"]*",?)+\} \S+', line) for line in lines)


def test_monitor_joins_labels_by_request(warehouse_of_m: Path, folder: Path, tmp_path: Path) -> None:
    table = pq.read_table(folder / "other.parquet")
    ids = pa.array([f"r{i}" for i in range(len(table))])
    pq.write_table(table.drop_columns(["click"]).append_column("served_request", ids), tmp_path / "log.parquet")
    pq.write_table(pa.table({"served_request": ids, "click": table["click"]}), tmp_path / "clicks.parquet")
    labels = f"SELECT served_request, click FROM parquet.`{tmp_path / 'clicks.parquet'}`"
    found = monitored(
        warehouse_of_m, "--data", f"parquet.`{tmp_path / 'log.parquet'}`", "--labels", labels, "--format", "json",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["metrics"]["examples"] == ROWS
    lost = monitored(warehouse_of_m, "--data", "nowhere")
    assert (lost.exit_code, lost.stderr) == (1, "Error: There is no table or view nowhere.\n")
    wrong = monitored(warehouse_of_m, "--data", "nowhere", "--fail-when", "drift.most > 1")
    assert "Expected max, as in drift.max, or a slot, as in drift(user), got 'most'." in wrong.stderr
    bare = monitored(warehouse_of_m, "--data", f"parquet.`{tmp_path / 'log.parquet'}`", "--fail-when", "auc < 1")
    assert bare.exit_code == 1
    assert "Metrics need labels" in bare.stderr
