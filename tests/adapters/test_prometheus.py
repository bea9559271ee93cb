"""Prometheus: pages of trainings and streams, and a dashboard and alarms of the same metrics."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import xpsql
from tests.notes import Notes
from tests.training.test_resume import interrupted
from xpsql.platform.adapters.dashboard import dashboard
from xpsql.platform.adapters.metrics import COUNTER, TRAINING, Page
from xpsql.platform.cli import main
from xpsql.platform.errors import TrainingError

parser = pytest.importorskip("prometheus_client.parser")

ROOT = Path(__file__).parents[2]
TRAINED = (
    "TRAIN MODEL m USING xftrl LABEL click EVALUATE EVERY 4 BATCHES ON 1 BATCHES RELEASE WHEN auc > 0.7 "
    "WITH (batch_size = 128) AS SELECT * FROM d1"
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=Notes()) as session:
        for number, (day, label) in enumerate((("d1", "id % 37 < 14"), ("d2", "id % 37 < 14"), ("d3", "hash(id) % 2 = 0"))):
            session.sql(
                f"CREATE TABLE {day} AS SELECT concat('u', id % 37) AS user, CAST({label} AS INT) AS click "
                f"FROM range({number * 4000}, {number * 4000 + 4000})"
            )
        yield session


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = parser.text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, tuple(sorted({"model": "m", **labels}.items()))]


def test_a_page_has_what_versions_say(session: xpsql.Session) -> None:
    session.sql(TRAINED)
    session.sql("CONTINUE MODEL m AS SELECT * FROM d2")
    with pytest.raises(TrainingError):
        session.sql("CONTINUE MODEL m AS SELECT * FROM d3")
    text = Page(session.models).text()
    assert value(text, "xpsql_training_examples_total") == 12_000
    assert value(text, "xpsql_training_windows_total") == 3 * 6
    assert value(text, "xpsql_versions", status="held") == 1
    assert value(text, "xpsql_served_version") == 2
    assert value(text, "xpsql_training_running") == 0
    assert value(text, "xpsql_drift", slot="user") == 0
    manifest = session.models.version("m", 2).manifest
    assert value(text, "xpsql_last_publication_timestamp_seconds") == manifest.finished.timestamp()
    assert 0.3 < value(text, "xpsql_training_metric", label="click", metric="auc") < 0.7
    assert {name for name, _ in samples(text)} <= TRAINING.keys()


def test_what_is_counted_never_falls_through_an_interruption_and_a_drop(tmp_path: Path, session: xpsql.Session) -> None:
    session.sql(TRAINED)
    page, seen = Page(session.models), list[float]()
    seen.append(value(page.text(), "xpsql_training_examples_total"))
    session.sql("CONTINUE MODEL m AS SELECT * FROM d2")
    seen.append(value(page.text(), "xpsql_training_examples_total"))
    session.sql("DROP MODEL m VERSION 2")
    seen.append(value(page.text(), "xpsql_training_examples_total"))
    assert seen == [4000, 8000, 8000]


def test_a_training_that_was_interrupted_counts_its_windows(tmp_path: Path, session: xpsql.Session) -> None:
    interrupted(tmp_path / "warehouse", TRAINED.replace("batch_size = 128", "batch_size = 128, checkpoint_seconds = 0.001"))
    page = Page(session.models)
    before = page.text()
    assert value(before, "xpsql_versions", status="interrupted") == 1
    assert value(before, "xpsql_training_examples_total") > 0
    session.sql("RESUME MODEL m")
    after = page.text()
    for name, described in TRAINING.items():
        if described.kind == COUNTER:
            assert value(after, name) >= value(before, name)
    assert value(after, "xpsql_training_examples_total") == 4000


def test_the_command_writes_a_page_and_serves_one(tmp_path: Path, session: xpsql.Session) -> None:
    session.sql(TRAINED)
    place = ["--warehouse", str(tmp_path / "warehouse")]
    shown = CliRunner().invoke(main, ["metrics", *place])
    assert value(shown.output, "xpsql_training_examples_total") == 4000
    assert CliRunner().invoke(main, ["metrics", "--textfile", str(tmp_path / "x.prom"), *place]).exit_code == 0
    assert (tmp_path / "x.prom").read_text() == shown.output
    assert CliRunner().invoke(main, ["metrics", "--textfile", "x", "--port", "0", *place]).exit_code == 2
    command = [sys.executable, "-c", "from xpsql.platform.cli import run; run()", "metrics", "--port", "0", *place]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            (address,) = re.findall(r"http://\S+/metrics", process.stderr.readline())
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain")
                assert answer.read().decode() == shown.output
        finally:
            process.terminate()


def test_the_dashboard_is_made_of_the_metrics() -> None:
    kept = json.loads((ROOT / "examples" / "grafana" / "xpsql.json").read_text())
    assert kept == dashboard(), "python -m xpsql.platform.adapters.dashboard > examples/grafana/xpsql.json"
    asked = [target["expr"] for panel in kept["panels"] for target in panel["targets"]]
    assert names_in(asked) == TRAINING.keys()
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in kept["panels"]]
    assert len(set(places)) == len(places)


def test_alarms_name_metrics_that_there_are() -> None:
    (group,) = yaml.safe_load((ROOT / "examples" / "grafana" / "alerts.yml").read_text())["groups"]
    assert names_in([rule["expr"] for rule in group["rules"]]) <= TRAINING.keys()
    assert all(rule["annotations"]["summary"] for rule in group["rules"])


def test_the_page_of_docs_lists_them() -> None:
    page = (ROOT / "docs" / "adapters.md").read_text()
    assert names_in([page]) >= TRAINING.keys()


def names_in(texts: list[Any]) -> set[str]:
    return {name for text in texts for name in re.findall(r"\bxpsql_[a-z_]+", text)}
