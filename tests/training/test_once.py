"""WITH (once = 'name'): a job that is retried learns nothing twice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.notes import Notes
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.sql.idempotency import missing
from xpsql.warehouse.entries import LearnedEntry, StreamEntry
from xpsql.warehouse.manifest import Manifest
from xpsql.warehouse.version import Version

DAY = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x FROM range({rows})"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path, reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl WITH (once = 'monday') AS {DAY.format(rows=100)}")
        yield session


def learn(session: xpsql.Session, day: str, rows: int = 200, *, words: str = "MODEL m", clauses: str = "") -> dict[str, Any]:
    text = f"CONTINUE {words} {clauses} WITH (once = '{day}') AS {DAY.format(rows=rows)}"
    (row,) = session.sql(text).arrow().to_pylist()
    return dict(row)


def versions(session: xpsql.Session) -> list[tuple[int, str | None, int | None, int]]:
    rows = session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()
    return [(row["version"], row["once"], row["parent"], row["examples"]) for row in rows]


def test_what_the_line_has_learned_under_a_name_is_not_learned_again(session: xpsql.Session) -> None:
    assert learn(session, "tuesday")["status"] == "ready"
    before = versions(session)
    for day, version in (("tuesday", 2), ("monday", 1)):
        row = learn(session, day, rows=300)
        assert (row["status"], row["version"], row["examples"]) == ("already learned", version, 0)
    text = f"TRAIN MODEL m USING xftrl WITH (once = 'monday') AS {DAY.format(rows=100)}"
    assert session.sql(text).arrow().column("status").to_pylist() == ["already learned"]
    assert versions(session) == before == [(1, "monday", None, 100), (2, "tuesday", 1, 200)]


def test_names_outlive_the_versions_that_are_dropped_and_no_version_inherits_its_parent_s(session: xpsql.Session) -> None:
    learn(session, "tuesday")
    session.sql(f"CONTINUE MODEL m AS {DAY.format(rows=50)}")
    session.sql("DROP MODEL m VERSIONS RETAIN LAST 1")
    assert versions(session) == [(3, None, 2, 50)]
    assert learn(session, "monday")["status"] == "already learned"


def test_or_replace_learns_the_newest_anew_from_the_version_before_it(session: xpsql.Session) -> None:
    learn(session, "tuesday")
    assert learn(session, "tuesday", rows=300, words="OR REPLACE MODEL m")["version"] == 3
    assert versions(session) == [(1, "monday", None, 100), (3, "tuesday", 1, 300)]
    assert session.models.version("m").manifest.learned.examples_total == 400
    learn(session, "wednesday", words="OR REPLACE MODEL m")
    with pytest.raises(StatementError, match="Version 3 of m learned 'tuesday', and version 4 continues it"):
        learn(session, "tuesday", words="OR REPLACE MODEL m")
    with pytest.raises(StatementError, match="CONTINUE OR REPLACE needs WITH"):
        session.sql(f"CONTINUE OR REPLACE MODEL m AS {DAY.format(rows=10)}")


def test_a_first_version_is_replaced_by_train_alone(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match="use TRAIN OR REPLACE MODEL"):
        learn(session, "monday", words="OR REPLACE MODEL m")


def test_what_failed_or_is_held_has_not_been_learned(session: xpsql.Session) -> None:
    gate = "EVALUATE EVERY 1 BATCHES ON 1 BATCHES RELEASE WHEN auc > 1"
    with pytest.raises(TrainingError, match="is held"):
        learn(session, "tuesday", clauses=gate)
    with pytest.raises(StatementError):
        session.sql("CONTINUE MODEL m WITH (once = 'tuesday') AS SELECT 1 AS label, 'a' AS x WHERE 1 = 0")
    assert learn(session, "tuesday")["status"] == "ready"
    assert [version[:3] for version in versions(session)][-1] == (3, "tuesday", 1)


def test_another_line_of_versions_has_learned_what_its_own_versions_have(session: xpsql.Session) -> None:
    learn(session, "tuesday")
    assert learn(session, "tuesday", words="MODEL m FROM VERSION 1")["version"] == 3


GATE = "EVALUATE EVERY 1 BATCHES ON 1 BATCHES RELEASE WHEN auc > 1"


def noted(session: xpsql.Session, statement: str) -> list[str]:
    """Return the notes about held versions of a statement."""
    session.reporter = notes = Notes()
    with contextlib.suppress(TrainingError):  # which the gate holds as well
        session.sql(statement)
    return [note for note in notes.notes if "is held" in note]


def test_a_line_that_goes_on_without_a_held_version_says_so_each_time(session: xpsql.Session) -> None:
    with pytest.raises(TrainingError, match="is held"):
        learn(session, "tuesday", clauses=GATE)
    (found,) = noted(session, f"CONTINUE MODEL m AS {DAY.format(rows=50)}")
    assert found.startswith("Version 2 of m is held, so the 200 examples of 'tuesday' that it learned, and its 8 features, are")
    assert "CONTINUE MODEL m FROM VERSION 2" in found
    assert "CONTINUE MODEL m WITH (once = 'tuesday')" in found
    (again,) = noted(session, f"CONTINUE MODEL m AS {DAY.format(rows=50)}")
    assert again == found
    assert noted(session, f"CONTINUE MODEL m FROM VERSION 2 AS {DAY.format(rows=50)}") == []


@pytest.mark.parametrize("remedy", ["learned again", "dropped"])
def test_a_held_version_is_not_missing_where_its_rows_are_learned_again_or_it_is_gone(
    session: xpsql.Session, remedy: str
) -> None:
    with pytest.raises(TrainingError, match="is held"):
        learn(session, "tuesday", clauses=GATE)
    if remedy == "learned again":
        assert noted(session, f"CONTINUE MODEL m WITH (once = 'tuesday') AS {DAY.format(rows=200)}") == []
    else:
        session.sql("DROP MODEL m VERSION 2")
    assert noted(session, f"CONTINUE MODEL m AS {DAY.format(rows=50)}") == []


def test_versions_that_go_on_from_a_held_one_are_missing_with_it(session: xpsql.Session) -> None:
    for words in ("MODEL m", "MODEL m FROM VERSION 2"):
        with pytest.raises(TrainingError, match="is held"):
            learn(session, "tuesday" if words == "MODEL m" else "wednesday", words=words, clauses=GATE)
    found = noted(session, f"CONTINUE MODEL m AS {DAY.format(rows=50)}")
    assert [note[:9] for note in found] == ["Version 2", "Version 3"]


def test_show_versions_gives_the_reason_of_a_held_version(session: xpsql.Session) -> None:
    with pytest.raises(TrainingError, match="is held"):
        learn(session, "tuesday", clauses=GATE)
    first, second = session.sql("SELECT reason, error FROM ML.VERSIONS(MODEL m)").arrow().to_pylist()
    assert first == {"reason": None, "error": None}
    assert second["error"] is None
    assert second["reason"].startswith("RELEASE WHEN auc > 1 is false, auc is 0.")
    assert "but FROM VERSION 2 or after its promotion" in second["reason"]


def test_of_a_held_version_of_a_stream_the_rows_come_again() -> None:
    held = Version(
        Path(),
        Manifest(
            model="m",
            version=2,
            status="held",
            learned=LearnedEntry(examples=9, rows=4),
            stream=StreamEntry(name="clicks"),
        ),
        served=False,
    )
    assert missing("m", held, streams=True).endswith("the rows of the stream come again, and are learned.")
    assert "FROM VERSION 2" in missing("m", held, streams=False)
