"""kill -9 of a search: RESUME goes on with the trials that are over."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import quick
from tests.forkserver import CONTEXT
from tests.training.auto.logs import planted, written
from xpsql.platform.progress import SilentReporter

STATEMENT = "TRAIN MODEL m USING auto (algorithms = (fm)) TIME ts BUDGET 5 TRIALS WITH (workers = 1) AS {}"
DEADLINE_SECONDS = 120


def search(warehouse: Path, statement: str) -> None:
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        session.sql(statement)


def journal(warehouse: Path) -> list[dict[str, Any]]:
    path = warehouse / ".auto" / "m" / "trials.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines[1:]]


@pytest.mark.parametrize("over", quick([0, 1, 2, 3, 4], [2]))
def test_a_killed_search_goes_on_with_the_trials_that_are_over(over: int, tmp_path: Path) -> None:
    warehouse, query = tmp_path / "warehouse", written(planted(6000), tmp_path / "log.parquet")
    process = CONTEXT.Process(target=search, args=(warehouse, STATEMENT.format(query)))
    process.start()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (warehouse / ".auto" / "m" / "trials.jsonl").exists() or len(journal(warehouse)) < over:
        assert process.is_alive()
        assert time.monotonic() < deadline
        process.join(0.01)
    process.kill()
    process.join()
    done = journal(warehouse)
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        assert not session.models.exists("m")
        session.sql("RESUME MODEL m")
        found = session.sql("SELECT seconds, stage FROM ML.TRIAL_INFO(MODEL m) ORDER BY trial_id").arrow().to_pylist()
        (statement,) = session.sql("SHOW TRAIN MODEL m").arrow()["statement"].to_pylist()
    assert [trial["seconds"] for trial in found][: len(done)] == [line["seconds"] for line in done]
    assert len(found) > len(done)
    assert "CROSS (s0 * s1)" in statement
    assert not (warehouse / ".auto" / "m").exists()
