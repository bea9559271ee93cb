"""USING auto and ML.CROSSES on both engines."""

from __future__ import annotations

from pathlib import Path

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.training.auto.logs import planted, written
from tests.training.log import session  # noqa: F401  a fixture


@lengthy
@costly_after_first
def test_both_engines_find_the_planted_cross(session: xpsql.Session, tmp_path: Path) -> None:  # noqa: F811
    query = written(planted(6000), tmp_path / "log.parquet")
    clauses = "USING auto (algorithms = (fm)) TIME ts BUDGET 3 TRIALS WITH (workers = 1, shards = 1)"
    session.sql(f"TRAIN MODEL m {clauses} AS {query}")
    (statement,) = session.sql("SHOW TRAIN MODEL m").arrow()["statement"].to_pylist()
    assert "CROSS (s0 * s1)" in statement
    found = session.sql("SELECT stage, status FROM ML.TRIAL_INFO(MODEL m) ORDER BY trial_id").arrow().to_pylist()
    assert [(trial["stage"], trial["status"]) for trial in found][:3] == [
        ("base", "default"),
        ("columns", "SUCCEEDED"),
        ("crosses", "SUCCEEDED"),
    ]
    session.sql(f"TRAIN MODEL plain USING xftrl TIME ts AS {query} WHERE ts < timestamp_seconds(1700003000)")
    later = f"({query} WHERE ts >= timestamp_seconds(1700003000))"
    crosses = session.sql(f"SELECT slots FROM ML.CROSSES(MODEL plain, {later})").arrow()["slots"].to_pylist()
    assert crosses == ["s0 * s1"]
