"""A short run of what `make chaos` does at length: trainings of the embedded engine that are killed and resumed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import xpsql
from tests.chaos import histories, service, streams
from tests.chaos.embedded import disturbed, expected
from tests.chaos.model import mistakes, write_log
from tests.notes import Notes


def test_a_training_that_is_killed_again_and_again_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")  # pytest shows it where the test fails
    log = write_log(tmp_path / "log.parquet", 20_000)
    rows = expected(tmp_path / "expected", log, "one worker")
    moments = ("any", "resume", "checkpoint", "commit")
    found = disturbed(tmp_path / "disturbed", log, "one worker", moments, random.Random(seed))
    assert found["mistakes"] == []
    assert pq.read_table(tmp_path / "disturbed" / "rows.parquet").equals(pq.read_table(rows))


class Begun(Notes):
    """Keeps the notes.

    Args:
        begun: called before the first batch.
    """

    def __init__(self, begun: Callable[[], None]) -> None:
        super().__init__()
        self._begun = begun

    def start(self, title: str, total_examples: int | None) -> None:
        self._begun()


def train(tmp_path: Path, options: str, begun: Callable[[], None] = lambda: None) -> list[str]:
    """Train with a checkpoint every few milliseconds, check the counts, and return the notes."""
    log, reported = write_log(tmp_path / "log.parquet", 5000), Begun(begun)
    with xpsql.connect(tmp_path / "warehouse", "duckdb", reported) as session:
        session.sql(f"""TRAIN MODEL m USING xftrl WITH (batch_size = 64, passes = 4, checkpoint_seconds = 0.01, {options})
                        AS SELECT * FROM parquet.`{log}`""")
        assert mistakes(session, log, 4) == []
    return reported.notes


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_disk_that_is_full_fails_checkpoints_and_not_the_training(tmp_path: Path) -> None:
    def fill() -> None:
        (place,) = (tmp_path / "checkpoints" / "m").glob("v1-*")
        for number in (1, 2):
            folder = place / f"000000-{number:06}"
            folder.mkdir(parents=True)
            (folder / "shard-0000.weights.parquet").symlink_to("/dev/full")

    notes = train(tmp_path, f"checkpoint_path = '{tmp_path / 'checkpoints'}'", fill)
    assert [note for note in notes if "The disk is full" in note] == notes[:2]
    assert "The training continues" in notes[0]
    assert len(notes) == 2


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = random.Random(1)
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000 + jumps.uniform(-1e8, 1e8))
    assert train(tmp_path, "workers = 2, shards = 2, sync = 'ssp'") == []


def test_a_history_whose_publisher_is_killed_says_what_batch_and_definition_say(tmp_path: Path) -> None:
    assert histories.disturbed(tmp_path, 6_000, 2, time.time_ns(), 1) == []


def test_a_service_that_is_killed_while_versions_come_serves_the_last_one_after_it(tmp_path: Path) -> None:
    pytest.importorskip("httptools")
    assert service.mistakes(tmp_path, 1, time.time_ns()) == []


def test_a_training_that_stays_and_is_killed_counts_each_message_of_its_topic_once(tmp_path: Path) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    assert streams.disturbed(tmp_path / "topic", "duckdb", "stays", "driver", 1, random.Random(seed))["mistakes"] == []
