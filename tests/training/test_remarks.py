"""TRAIN and EXPLAIN TRAIN tell of slots that cannot help, with the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import xpsql
from tests.cases import lengthy
from tests.notes import Notes
from xpsql.algorithms.traits import Traits
from xpsql.platform.training.metrics import remarks
from xpsql.platform.training.metrics.alone import ToldAlone, leak_text

ROWS = (
    "SELECT pmod(xxhash64(id), 3) = 0 AS label, concat('s', id) AS session, id % 50 AS user, "
    "date_add(DATE'2026-01-01', CAST(id % 9 AS INT)) AS day FROM range(4000)"
)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def session(tmp_path: Path, notes: Notes) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=notes) as session:
        session.sql(f"CREATE TABLE log AS {ROWS}")
        yield session


def explained(session: xpsql.Session, statement: str) -> list[str]:
    rows = session.sql(f"EXPLAIN {statement}").arrow().to_pylist()
    return [row["value"] for row in rows if row["property"] == "note"]


def test_an_id_per_row_and_a_date_are_reported_by_both(session: xpsql.Session, notes: Notes) -> None:
    statement = "TRAIN MODEL m USING xftrl WITH (passes = 3) AS SELECT * FROM log"
    reported = explained(session, statement)
    day, ids = reported
    assert day.startswith("Slot day is a DATE, and each day is a feature of its own")
    assert ids.startswith("Slot session has 4,000 features in 4,000 values of the first 4,000 rows, nearly one for each")
    assert "IGNORE it, or select" in ids
    notes.notes.clear()
    session.sql(statement)
    assert notes.notes == [day, ids.replace("the first 4,000 rows", "the examples")]


@lengthy
def test_nothing_is_noted_of_slots_that_recur_of_few_rows_or_of_what_is_ignored(session: xpsql.Session, notes: Notes) -> None:
    notes.notes.clear()
    for name, query in (
        ("a", "SELECT label, user FROM log"),
        ("b", "SELECT label, session FROM log LIMIT 900"),
        ("c", "SELECT label, user, CAST(IF(user < 3, session, 's') AS STRING) AS session FROM log"),
    ):
        session.sql(f"TRAIN MODEL {name} USING xftrl AS {query}")
        assert explained(session, f"TRAIN MODEL {name}2 USING xftrl AS {query}") == []
    session.sql("TRAIN MODEL d USING xftrl IGNORE (session, day) AS SELECT * FROM log")
    assert notes.notes == []


def test_a_slot_with_most_features_is_reported(session: xpsql.Session, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remarks, "ENOUGH_FEATURES", 500)
    notes.notes.clear()
    session.sql("CREATE TABLE queries AS SELECT label, user, concat('q', pmod(xxhash64(session), 1500)) AS query FROM log")
    statement = "TRAIN MODEL m USING xftrl AS SELECT * FROM queries"
    (reported,) = explained(session, statement)
    session.sql(statement)
    assert notes.notes == [reported.replace("the first 4,000 rows", "the examples")]
    assert reported.startswith("Slot query has 97% of all features of the first 4,000 rows")
    assert "OPERATORS (admit (min_count = 5))" in reported


def test_a_version_that_goes_on_gets_no_note_again(session: xpsql.Session, notes: Notes) -> None:
    session.sql("TRAIN MODEL m USING xftrl AS SELECT * FROM log")
    notes.notes.clear()
    session.sql("CONTINUE MODEL m AS SELECT * FROM log")
    assert notes.notes == []


def test_of_many_stored_rows_the_first_are_looked_at(
    session: xpsql.Session, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remarks, "MOST_ROWS", 1000)
    session.sql("TRAIN MODEL m USING xftrl AS SELECT label, session FROM log")
    assert any("by the first 4,001 rows of the model, nearly one for each" in note for note in notes.notes)


def test_a_slot_that_later_examples_alone_see_may_tell_the_label() -> None:
    slot = SimpleNamespace(name="clicked", number=1, type="string", members=())
    columns: Any = SimpleNamespace(scalar=(slot,), features=(slot,))
    seen = remarks.SlotCounts({1: 2}, {1: 500}, "the examples", {1: ToldAlone(1.0, 1.0)})
    algorithms: list[Any] = [SimpleNamespace(traits=Traits(later=later)) for later in ((), ("clicked",))]
    (note,) = remarks.remarks(columns, seen, algorithms[0])
    assert note.startswith("Column clicked alone tells the label")
    assert remarks.remarks(columns, seen, algorithms[1]) == []


def test_a_cross_that_tells_the_label_is_taken_out_of_its_clause() -> None:
    assert leak_text("a*b", ToldAlone(1.0, 1.0), ("a", "b")).endswith(
        "Take it out of CROSS, IGNORE a or b, or make sure that it is known when you predict."
    )
