"""Operators that act from the second pass on: rows that begin anew, and smaller steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import xpsql
from tests.cases import costly, lengthy, quick
from tests.training.test_resume import interrupted
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.compiled.table_programs import STATISTICS

LOG = (
    "SELECT CAST(pmod(xxhash64(id, 1), 40) AS STRING) AS a, CAST(pmod(xxhash64(id, 2), 30) AS STRING) AS b, "
    "CAST(pmod(xxhash64(id, 3), 3) = 0 AS INT) AS label FROM range({}, {}) ORDER BY id"
)
SETTINGS = "batch_size = 50, workers = 1, cooldown = 0"
Rows = Mapping[int, tuple[object, ...]]


class Told(SilentReporter):
    """Keeps the notes of trainings."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def learn(
    session: xpsql.Session, using: str, operators: str, passes: int, more: str = "", days: str = LOG.format(0, 400)
) -> Mapping[str, Rows]:
    """Train a model on a day, and return the columns of its rows."""
    settings = f"{SETTINGS}, passes = {passes}{more}"
    session.sql(f"TRAIN OR REPLACE MODEL m USING {using} OPERATORS ({operators}) WITH ({settings}) AS {LOG.format(0, 400)}")
    return stored(session)


def stored(session: xpsql.Session) -> Mapping[str, Rows]:
    version, found = session.models.version("m"), {}
    for table in version.manifest.tables:
        rows = [row for batch in version.rows(table.name) for row in batch.to_pylist()]
        names = [name for name in rows[0] if name not in STATISTICS]
        found[table.name] = {row["key"]: tuple(row[name] for name in names) for row in rows}
    return found


def differ(one: Rows, other: Rows) -> bool:
    assert one.keys() == other.keys()
    return one != other


RENEWED = [(*one, more) for one in (("fm", "ftrl"), ("fm", "adagrad"), ("xftrl", "ftrl")) for more in ("", ", shards = 3")]


@pytest.fixture
def session(tmp_path: Path) -> xpsql.Session:
    return xpsql.connect(tmp_path, reporter=Told())


@lengthy
@pytest.mark.parametrize(("using", "optimizer", "more"), quick(RENEWED, (RENEWED[2], RENEWED[5])))
def test_three_passes_of_rows_that_all_begin_anew_are_one(
    session: xpsql.Session, using: str, optimizer: str, more: str
) -> None:
    once = learn(session, using, f"renew, {optimizer}", 1, more)
    thrice = learn(session, using, f"renew, {optimizer}", 3, more)
    assert once.keys() == thrice.keys()
    assert not any(differ(once[table], thrice[table]) for table in once)
    plain = learn(session, using, optimizer, 3, more)
    assert all(differ(plain[table], once[table]) for table in once)
    counts = session.sql("SELECT max(count) AS most FROM ML.WEIGHTS(MODEL m) WHERE slot = 'a'").arrow()["most"].to_pylist()
    thrice = learn(session, using, f"renew, {optimizer}", 3, more)
    assert (
        session.sql("SELECT max(count) AS most FROM ML.WEIGHTS(MODEL m) WHERE slot = 'a'").arrow()["most"].to_pylist() == counts
    )


@costly
def test_other_tables_go_on_where_vectors_begin_anew(session: xpsql.Session) -> None:
    once, twice = (learn(session, "fm", "renew ON vectors, ftrl", passes) for passes in (1, 2))
    plain = learn(session, "fm", "ftrl", 2)
    assert differ(once["weights"], twice["weights"])
    assert differ(plain["vectors"], twice["vectors"])


def test_a_later_version_begins_each_pass_with_the_rows_before(session: xpsql.Session) -> None:
    found = []
    for passes in (1, 3):
        learn(session, "xftrl", "renew, ftrl", 1)
        session.sql(f"CONTINUE MODEL m WITH (passes = {passes}) AS {LOG.format(400, 800)}")
        found.append(stored(session)["weights"])
    assert not differ(*found)


@lengthy
@pytest.mark.parametrize("operators", ["renew ON vectors, ftrl", "later_passes (rate = 0.5), adagrad"])
def test_a_training_that_is_interrupted_and_resumed_has_the_same_rows(
    session: xpsql.Session, operators: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpsql.platform.training.monitor.TELL_SECONDS", 0.0)
    alone = learn(session, "fm", operators, 6)
    settings = f"{SETTINGS}, passes = 6, checkpoint_seconds = 0.001"
    interrupted(tmp_path / "cut", f"TRAIN MODEL m USING fm OPERATORS ({operators}) WITH ({settings}) AS {LOG.format(0, 400)}")
    with xpsql.connect(tmp_path / "cut", reporter=SilentReporter()) as resumed:
        resumed.sql("RESUME MODEL m")
        found = stored(resumed)
    assert not any(differ(alone[table], found[table]) for table in alone)


@costly
@pytest.mark.parametrize("optimizer", quick(["ftrl", "adagrad", "adam"], ["ftrl", "adam"]))
def test_later_steps_are_multiplied_by_the_rate(session: xpsql.Session, optimizer: str) -> None:
    def weights() -> dict[int, float]:
        return dict(session.sql("SELECT key, weight FROM ML.WEIGHTS(MODEL m)").fetchall())

    found = {}
    for name, operators, passes in (
        ("once", optimizer, 1),
        ("twice", optimizer, 2),
        ("still", f"later_passes (rate = 0), {optimizer}", 2),
        ("half", f"later_passes (rate = 0.5), {optimizer}", 2),
        ("full", f"later_passes (rate = 1), {optimizer}", 2),
    ):
        learn(session, "xftrl", operators, passes)
        found[name] = weights()
    assert found["still"] == pytest.approx(found["once"], abs=1e-6)
    assert found["full"] == pytest.approx(found["twice"], abs=1e-6)
    moved = {name: sum(abs(found[name][key] - found["once"][key]) for key in found["once"]) for name in ("half", "twice")}
    assert 0.2 < moved["half"] / moved["twice"] < 0.8


@costly
def test_a_training_of_one_pass_says_that_they_do_nothing(session: xpsql.Session) -> None:
    told = session.reporter
    assert isinstance(told, Told)
    learn(session, "fm", "renew ON vectors, later_passes, ftrl", 1)
    (note,) = [note for note in told.notes if "second pass" in note]
    assert note.startswith("OPERATORS (later_passes, renew) act from the second pass on")
    told.notes.clear()
    session.sql(f"CONTINUE MODEL m AS {LOG.format(400, 800)}")
    learn(session, "fm", "renew ON vectors, later_passes, ftrl", 2)
    assert not [note for note in told.notes if "second pass" in note]
