"""OpenLineage: a run begins, tells its sources and versions, and ends once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.notes import Notes
from xpsql.platform.adapters.openlineage import dataset_of
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.warehouse.entries import SourceEntry

pytest.importorskip("openlineage.client", reason="the package of the extra openlineage")

TRAIN = "TRAIN MODEL m USING xftrl LABEL click AS SELECT * FROM {}"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[xpsql.Session]:
    """Give a session that tells a file of events."""
    monkeypatch.setenv("XPSQL_OPENLINEAGE", "1")
    for name, value in {"TYPE": "file", "LOG_FILE_PATH": str(tmp_path / "events"), "APPEND": "true"}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    with xpsql.connect(tmp_path / "warehouse", reporter=Notes()) as session:
        session.sql("CREATE TABLE log AS SELECT id % 2 AS click, concat('u', id % 7) AS user FROM range(3000)")
        yield session


def events(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]


def test_a_run_says_what_it_read_and_what_it_made(session: xpsql.Session, tmp_path: Path) -> None:
    session.sql(TRAIN.format("log"))
    session.sql("SELECT * FROM log")
    started, running, completed = events(tmp_path)
    assert [one["eventType"] for one in (started, running, completed)] == ["START", "RUNNING", "COMPLETE"]
    assert len({one["run"]["runId"] for one in events(tmp_path)}) == 1
    assert started["eventTime"] < running["eventTime"] < completed["eventTime"]
    assert completed["job"]["name"] == "m"
    assert completed["job"]["namespace"] == (tmp_path / "warehouse").as_uri()
    assert completed["job"]["facets"]["sql"]["query"] == TRAIN.format("log")
    (source,), (output,) = completed["inputs"], completed["outputs"]
    assert source["name"] == "log"
    assert source["facets"]["version"]["datasetVersion"] == "1"
    assert source["inputFacets"]["inputStatistics"]["fileCount"] == 1
    assert output["name"] == "models/m"
    assert output["facets"]["version"]["datasetVersion"] == "1"
    assert [field["name"] for field in output["facets"]["schema"]["fields"]] == ["user"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 8


def test_a_run_that_fails_says_why_and_one_that_is_held_has_its_version(session: xpsql.Session, tmp_path: Path) -> None:
    with pytest.raises(StatementError):
        session.sql(TRAIN.format("nowhere"))
    gate = "EVALUATE EVERY 1 BATCHES ON 1 BATCHES RELEASE WHEN auc > 2 AS SELECT"
    with pytest.raises(TrainingError):
        session.sql(TRAIN.format("log").replace("AS SELECT", gate))
    failed, held = events(tmp_path)[1], events(tmp_path)[-1]
    assert (failed["eventType"], failed["outputs"]) == ("FAIL", [])
    assert "nowhere" in failed["run"]["facets"]["errorMessage"]["message"]
    assert (held["eventType"], len(held["outputs"])) == ("FAIL", 1)


def test_the_run_of_a_scheduler_is_the_parent(session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = "0195f0a1-7d3c-7c3a-9f6e-2f0d6a3f7a11"
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/daily.train/{identity}")
    session.sql(TRAIN.format("log"))
    parent = events(tmp_path)[0]["run"]["facets"]["parent"]
    assert (parent["job"]["namespace"], parent["job"]["name"], parent["run"]["runId"]) == ("airflow", "daily.train", identity)


def test_events_keep_to_the_schema_of_the_specification(session: xpsql.Session, tmp_path: Path) -> None:
    """What OpenLineage.json asks of a RunEvent and of every facet, word for word."""
    session.sql(TRAIN.format("log"))
    for event in events(tmp_path):
        assert {"eventTime", "producer", "schemaURL", "run", "job"} <= event.keys()
        assert event["schemaURL"].endswith("OpenLineage.json#/$defs/RunEvent")
        assert event["eventType"] in ("START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER")
        facets = [*event["run"]["facets"].values(), *event["job"]["facets"].values()]
        for dataset in (*event["inputs"], *event["outputs"]):
            assert dataset["namespace"]
            assert dataset["name"]
            facets += [*dataset["facets"].values(), *dataset.get("inputFacets", {}).values()]
            facets += dataset.get("outputFacets", {}).values()
        assert all(facet["_producer"] and facet["_schemaURL"].startswith("https://openlineage.io/spec/") for facet in facets)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (SourceEntry("files", "parquet.`/data/log`"), ("file", "/data/log")),
        (SourceEntry("files", "parquet.`s3://bucket/a/log`"), ("s3://bucket", "a/log")),
        (SourceEntry("table", "log"), ("file:///w", "log")),
        (SourceEntry("topic", "clicks", position={"servers": "h1:9092,h2:9092"}), ("kafka://h1:9092", "clicks")),
    ],
)
def test_sources_have_the_names_of_the_specification(source: SourceEntry, named: tuple[str, str]) -> None:
    assert dataset_of(source, Path("/w")) == named


def test_events_reach_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("XPSQL_OPENLINEAGE", "1")
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        with xpsql.connect(tmp_path / "warehouse", reporter=Notes()) as session:
            session.sql("TRAIN MODEL m USING xftrl AS SELECT id % 2 AS label, CAST(id % 7 AS STRING) AS x FROM range(300)")
        server.shutdown()
    assert [one["eventType"] for one in said] == ["START", "RUNNING", "COMPLETE"]
