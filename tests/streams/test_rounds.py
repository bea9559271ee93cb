"""A resident training on Spark, whose workers are tasks that read a topic themselves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly
from tests.streams.broker import Broker
from tests.streams.landing import COLUMNS, answer, learned, train
from tests.streams.test_publish import Notes, published, total, until
from tests.streams.topics import more, produced, stream
from xpsql.platform.input.streams import feed as feeds
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.draft import Draft


@costly
def test_tasks_learn_a_topic_in_rounds_and_go_on_after_a_death(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(feeds, "BEHIND_SECONDS", 0.02)
    monkeypatch.setattr("tests.streams.test_publish.DEADLINE_SECONDS", 180.0)
    topic = produced(broker, 300, partitions=2)
    notes = Notes()
    commit = Draft.commit

    def dies(self: Draft, *values: Any, **named: Any) -> None:
        monkeypatch.setattr(Draft, "commit", commit)
        self._release()  # as after a kill, nobody says how it ended
        raise KeyboardInterrupt

    def stay(text: str) -> dict[str, Any]:
        with xpsql.connect(tmp_path / "warehouse", spark, notes) as session:
            return answer(session, text)

    with ThreadPoolExecutor(1) as pool, xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        train(session, stream(broker, topic))
        monkeypatch.setattr(Draft, "commit", dies)
        clauses = "PUBLISH EVERY 200 EXAMPLES WITH (workers = 2, shards = 1)"
        text = f"CONTINUE MODEL m {clauses} AS SELECT {COLUMNS} FROM STREAM {stream(broker, topic)}"
        running = pool.submit(stay, text)
        more(broker, topic, 150, seed=2)
        more(broker, topic, 100, seed=3, partition=1)
        with pytest.raises(KeyboardInterrupt):
            running.result(180)
        assert [v.manifest.status for v in session.models.versions("m")] == ["ready", "interrupted"]
        running = pool.submit(stay, "RESUME MODEL m")
        until(lambda: 2 in published(session), running)
        more(broker, topic, 50, seed=4)
        (row,) = session.sql("STOP MODEL m").arrow().to_pylist()
        assert learned(row) == learned(running.result(180)) == (3, "ready", 50)
        assert [v.manifest.learned.examples for v in session.models.versions("m")] == [300, 250, 50]
        assert total(session) == (600, 600)
        for number, came in ((2, 250), (3, 50)):
            info = session.sql(
                f"SELECT examples, lag_rows, lag_seconds FROM ML.TRAINING_INFO(MODEL m VERSION {number})"
            ).arrow()
            assert info.num_rows
            assert all(0 <= line["lag_rows"] <= came + 50 and line["lag_seconds"] >= 0 for line in info.to_pylist())
        assert [note for note in notes.said if "m v2: 250 examples, learned by tasks" in note]
