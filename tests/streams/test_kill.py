"""kill -9 of a training from a stream, at the steps where what it takes is settled: each row is learned once."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.forkserver import CONTEXT
from tests.streams.landing import COLUMNS, arrives, go_on, learned, rows_of, train
from xpsql.platform.input.streams import folder as folders
from xpsql.platform.input.streams.files import splits_of
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training import train as training
from xpsql.warehouse.draft import Draft
from xpsql.warehouse.trainings.segments import FILE, append_segment, mend_segments, read_segments

STATEMENT = (
    f"CONTINUE MODEL m WITH (until = 'available', checkpoint_seconds = 0.01) AS SELECT {COLUMNS} FROM STREAM parquet.`{{}}`"
)


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(SilentReporter):
    """Kills the process when so many examples are learned."""

    def __init__(self, examples: int) -> None:
        self.examples = examples

    def start(self, title: str, total_examples: int | None) -> None:
        if not self.examples:
            die()

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        if examples >= self.examples:
            die()


def killed(warehouse: Path, statement: str, moment: str) -> None:
    """Run a statement in this process and be killed at a moment."""
    if moment == "before the segment":
        training.append_segment = die  # type: ignore[assignment]
    elif moment == "before the record":
        Draft.record = die  # type: ignore[assignment, method-assign]
    elif moment == "before the commit":
        Draft.commit = die  # type: ignore[assignment, method-assign]
    examples = {"before the deal": 0, "while learning": 500}.get(moment, 1 << 40)
    with xpsql.connect(warehouse, "duckdb", Dying(examples)) as session:
        session.sql(statement)


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    "moment", ["before the segment", "before the record", "before the deal", "while learning", "before the commit"]
)
def test_a_job_that_was_killed_learns_each_row_once(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "LOOK_SECONDS", 0.0)
    landing, statement = tmp_path / "landing", STATEMENT.format(tmp_path / "landing")
    arrives(landing, "a", 300, seed=1)
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter(), resume=True) as session:
        stream = f"parquet.`{landing}`"
        train(session, stream)
        arrives(landing, "b", 1500, seed=2)
        process = CONTEXT.Process(target=killed, args=(tmp_path / "warehouse", statement, moment))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        (version,) = [v for v in session.models.versions("m") if v.number == 2]
        assert version.manifest.status == "interrupted"
        settled = moment not in ("before the segment", "before the record")
        assert (version.manifest.stream.name is not None) == settled
        arrives(landing, "c", 200, seed=3)
        first = session.sql(statement).arrow().to_pylist()[0]
        assert learned(first) == ((2, "ready", 1500) if settled else (3, "ready", 1700))
        assert go_on(session, stream)["examples"] == (200 if settled else 0)
        (intercept,) = [row for row in rows_of(session).to_pylist() if row["slot"] == "(intercept)"]
        assert (intercept["count"], intercept["shows"]) == (2000, 2000)


def test_a_segment_that_a_kill_has_cut_is_none(tmp_path: Path) -> None:
    arrives(tmp_path / "landing", "a", 500, seed=1)
    splits = splits_of(folders.file_at(tmp_path / "landing" / "a.parquet"))
    append_segment(tmp_path, splits[:2])
    append_segment(tmp_path, splits[2:])
    with (tmp_path / FILE).open("rb+") as file:
        file.truncate((tmp_path / FILE).stat().st_size - 5)
    assert read_segments(tmp_path) == [splits[:2]]
    mend_segments(tmp_path)
    append_segment(tmp_path, splits[1:])
    assert read_segments(tmp_path) == [splits[:2], splits[1:]]
