"""Trainings that stay: versions while they learn, STOP MODEL, signals and kills; each row is learned once."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import xpsql
from tests.cases import costly, lengthy
from tests.forkserver import CONTEXT
from tests.streams.broker import Broker
from tests.streams.landing import COLUMNS, answer, arrives, go_on, learned, rows_of, train
from tests.streams.topics import POISON, messages, more, produced, skipping
from tests.training.log import log
from xpsql.platform.cli.commands import main
from xpsql.platform.errors import ModelError, StatementError
from xpsql.platform.input.dealing import Dealer, TurnAssignment
from xpsql.platform.input.streams import feed as feeds
from xpsql.platform.input.streams import folder as folders
from xpsql.platform.input.streams.feed import Feed
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.watermarks import Turn
from xpsql.platform.training.resident.announcer import stopped_by_signals
from xpsql.platform.training.resident.increment import GrowingDealer, Increment
from xpsql.warehouse.draft import Draft
from xpsql.warehouse.entries import Split
from xpsql.warehouse.models import Models

DEADLINE_SECONDS = 30.0
TWO = "WITH (workers = 2, batch_size = 64, checkpoint_seconds = 0.3)"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(feeds, "LOOK_SECONDS", 0.02)


class Notes(SilentReporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


class Staying:
    """A resident training, in a thread of this process with its own session."""

    def __init__(self, warehouse: Path, text: str, pool: ThreadPoolExecutor) -> None:
        self.notes = Notes()
        self._warehouse, self._text = warehouse, text
        self.ended: Future[dict[str, Any]] = pool.submit(self._run)

    def _run(self) -> dict[str, Any]:
        with xpsql.connect(self._warehouse, "duckdb", self.notes) as session:
            return answer(session, self._text)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool
        residence = Models(tmp_path / "warehouse").residence("m")
        while (status := residence.status()) is not None:  # of a test that failed
            residence.ask(status.training)
            time.sleep(0.05)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        yield session


def until(true: Callable[[], bool], running: Future[Any] | None = None) -> None:
    """Wait until something is so, and the training has not ended by an error."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not true():
        if running is not None and running.done():
            running.result()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def published(session: xpsql.Session, model: str = "m") -> list[int]:
    """Return the numbers of the versions that are committed."""
    return [v.number for v in session.models.present(model) if v.manifest.status in ("ready", "held")]


def total(session: xpsql.Session) -> tuple[int, int]:
    (intercept,) = [row for row in rows_of(session).to_pylist() if row["slot"] == "(intercept)"]
    return intercept["count"], intercept["shows"]


def staying(relation: str, clauses: str, verb: str = "CONTINUE", columns: str = COLUMNS) -> str:
    using = " USING xftrl TIME ts" if verb == "TRAIN" else ""
    return f"{verb} MODEL m{using} {clauses} AS SELECT {columns} FROM STREAM {relation}"


@lengthy
def test_versions_come_while_it_learns_and_each_has_the_rows_up_to_its_position(
    session: xpsql.Session, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    landing, rows = tmp_path / "landing", 0
    relation = f"parquet.`{landing}`"
    arrives(landing, "a", 700, seed=1)
    resident = Staying(tmp_path / "warehouse", staying(relation, f"PUBLISH EVERY 500 EXAMPLES {TWO}", "TRAIN"), pool)
    for number in range(1, 4):
        until(lambda number=number: number in published(session), resident.ended)  # type: ignore[misc]
        arrives(landing, f"b{number}", 600, seed=1 + number)
    until(lambda: 4 in published(session), resident.ended)
    with pytest.raises(ModelError, match="is being trained by"):
        session.sql("DROP MODEL m VERSIONS RETAIN LAST 1")
    until(lambda: (now := session.models.residence("m").status()) is not None and now.version == 4, resident.ended)
    arrives(landing, "c", 100, seed=9)
    until(lambda: (now := session.models.residence("m").status()) is not None and now.examples >= 2600, resident.ended)
    (listed,) = session.sql("SHOW MODELS").arrow().to_pylist()
    assert f"from files {landing}" in listed["progress"]
    shown = CliRunner().invoke(main, ["status", "m", "--warehouse", str(tmp_path / "warehouse"), "--format", "json"])
    assert (shown.exit_code, json.loads(shown.stdout)["version"]) == (0, 4)
    (row,) = session.sql("STOP MODEL m").arrow().to_pylist()
    assert learned(row) == learned(resident.ended.result()) == (5, "ready", 100)
    for version in session.models.versions("m"):
        rows += version.manifest.learned.examples
        assert version.manifest.stream.position[f"files {landing}"]["rows"] == version.manifest.learned.examples_total == rows
        of_version = session.sql(f"SELECT count FROM ML.WEIGHTS(MODEL m VERSION {version.number}) WHERE slot = '(intercept)'")
        assert of_version.arrow()["count"].to_pylist() == [rows]
    assert [v.manifest.parent for v in session.models.versions("m")] == [None, 1, 2, 3, 4]
    info = session.sql("SELECT lag_rows, lag_seconds FROM ML.TRAINING_INFO(MODEL m VERSION 2)").arrow().to_pylist()
    assert all(0 <= line["lag_rows"] <= 600 and line["lag_seconds"] >= 0 for line in info)
    arrives(landing, "d", 50, seed=10)
    assert learned(go_on(session, relation)) == (6, "ready", 50)
    assert total(session) == (2650, 2650)
    assert CliRunner().invoke(main, ["status", "--warehouse", str(tmp_path / "warehouse")]).exit_code == 1
    with pytest.raises(ModelError, match="has no resident training"):
        session.sql("STOP MODEL m")


@costly
def test_with_one_worker_the_last_version_is_that_of_jobs_over_the_same_files(
    session: xpsql.Session, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    landing, relation = tmp_path / "landing", f"parquet.`{tmp_path / 'landing'}`"
    arrives(landing, "a", 700, seed=1)
    settings = "PUBLISH EVERY 100 EXAMPLES WITH (workers = 1, batch_size = 64)"
    resident = Staying(tmp_path / "warehouse", staying(relation, settings, "TRAIN"), pool)
    until(lambda: published(session) == [1], resident.ended)
    arrives(landing, "b", 500, seed=2)
    until(lambda: published(session) == [1, 2], resident.ended)
    assert session.sql("STOP MODEL m").arrow()["version"].to_pylist() == [2]  # nothing new: no version
    assert learned(resident.ended.result())[:2] == (2, "ready")
    train(session, relation.replace("landing`", "landing/a.parquet`"), model="jobs")
    go_on(session, relation.replace("landing`", "landing/b.parquet`"), settings=", data_loss = 'continue'", model="jobs")
    assert rows_of(session).equals(rows_of(session, "jobs"))


@costly
def test_a_gate_holds_a_version_and_learning_goes_on(session: xpsql.Session, tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    landing, relation = tmp_path / "landing", f"parquet.`{tmp_path / 'landing'}`"
    arrives(landing, "a", 400, seed=1)
    train(session, relation)
    gate = "EVALUATE EVERY 1 BATCHES ON 1 BATCHES RELEASE WHEN examples > 300"
    text = staying(relation, f"PUBLISH EVERY 200 EXAMPLES {gate} WITH (batch_size = 64)")
    resident = Staying(tmp_path / "warehouse", text, pool)
    arrives(landing, "b", 300, seed=2)
    until(lambda: 2 in published(session), resident.ended)
    arrives(landing, "c", 900, seed=3)
    until(lambda: 3 in published(session), resident.ended)
    session.sql("STOP MODEL m")
    found = [
        (v.number, v.manifest.status, v.manifest.parent, v.manifest.learned.examples) for v in session.models.versions("m")
    ]
    assert found == [(1, "ready", None, 400), (2, "held", 1, 300), (3, "ready", 2, 900)]
    assert total(session) == (1600, 1600)
    assert any("is held, not served" in said and said.endswith("Learning continues.") for said in resident.notes.said)


def test_a_query_that_cannot_be_learned_is_refused_before_rows_arrive(
    session: xpsql.Session, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    landing, relation = tmp_path / "landing", f"parquet.`{tmp_path / 'landing'}`"
    arrives(landing, "a", 400, seed=1)
    train(session, relation)
    text = staying(relation, "PUBLISH EVERY 200 EXAMPLES", columns="user, ts")
    resident = Staying(tmp_path / "warehouse", text, pool)
    with pytest.raises(StatementError, match="label"):
        resident.ended.result(DEADLINE_SECONDS)
    assert published(session) == [1]


def test_the_newest_versions_stay(
    session: xpsql.Session, tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no stream is asked for more while workers stand still."""
    asked: list[bool] = []
    take = Feed.take

    def seen(feed: Feed, *wanted: float) -> list[Split]:
        asked.append(any(one.following is not None and not one.following.opened.is_set() for one in increments))
        return take(feed, *wanted)

    increments: list[Increment] = []
    close = Increment.close
    monkeypatch.setattr(Increment, "close", lambda one, following: (increments.append(one), close(one, following))[1])
    monkeypatch.setattr(Feed, "take", seen)
    landing, relation = tmp_path / "landing", f"parquet.`{tmp_path / 'landing'}`"
    arrives(landing, "a0", 200, seed=1)
    text = staying(relation, "PUBLISH EVERY 100 EXAMPLES RETAIN LAST 2 WITH (batch_size = 64)", "TRAIN")
    resident = Staying(tmp_path / "warehouse", text, pool)
    for number in range(1, 5):
        until(lambda number=number: number in published(session), resident.ended)  # type: ignore[misc]
        if number == 2:
            session.sql("ALTER MODEL m PROMOTE VERSION 1")
        arrives(landing, f"a{number}", 200, seed=1 + number)
    until(lambda: 5 in published(session), resident.ended)
    session.sql("STOP MODEL m")
    assert published(session) == [1, 4, 5]
    assert len(increments) > 4
    assert not any(asked)


@costly
def test_a_topic_is_learned_once_over_versions_and_what_is_no_row_is_written_down(
    session: xpsql.Session, broker: Broker, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    topic = produced(broker, 300, partitions=2)
    text = staying(skipping(broker, topic), f"PUBLISH EVERY 1 SECOND {TWO}", "TRAIN")
    resident = Staying(tmp_path / "warehouse", text, pool)
    for number in range(1, 3):
        until(lambda number=number: number in published(session), resident.ended)  # type: ignore[misc]
        more(broker, topic, 200, seed=1 + number, partition=number % 2)
        broker.produce(topic, POISON[:2])
    until(lambda: 3 in published(session), resident.ended)
    session.sql("STOP MODEL m")
    assert total(session) == (700, 700)
    skipped = [path for v in session.models.versions("m") for path in (v.folder / "skipped").glob("*.jsonl")]
    assert sum(path.read_text().count("\n") for path in skipped) == 4
    assert learned(go_on(session, skipping(broker, topic)))[1:] == ("nothing new", 0)


@costly
def test_what_has_no_row_to_learn_is_passed_once(session: xpsql.Session, broker: Broker, tmp_path: Path) -> None:
    topic = produced(broker, 100)
    train(session, skipping(broker, topic))
    broker.produce(topic, POISON)
    assert learned(go_on(session, skipping(broker, topic))) == (1, "nothing new", 0)
    version = session.models.version("m")
    assert version.position[f"topic {topic}"]["offsets"] == {"0": 100 + len(POISON)}
    assert len(list((version.folder / "skipped").glob("*.jsonl"))) == 1
    broker.produce(topic, messages(log(50, 2)))
    assert learned(go_on(session, skipping(broker, topic))) == (2, "ready", 50)
    assert session.models.version("m").manifest.stream.position[f"topic {topic}"]["offsets"] == {"0": 150 + len(POISON)}


def stay(warehouse: Path, text: str, resumes: bool, commits: int) -> None:
    """Run a statement that stays in this process, which dies where so many versions are committed and one more would be."""
    folders.LOOK_SECONDS, feeds.LOOK_SECONDS = 0.0, 0.02
    commit = Draft.commit

    def dies(self: Draft, *values: Any) -> None:
        nonlocal commits
        commits -= 1
        if commits == -1:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, *values)

    Draft.commit = dies  # type: ignore[method-assign]
    with xpsql.connect(warehouse, "duckdb", SilentReporter(), resume=resumes) as session:
        session.sql(text)


@costly
def test_a_kill_loses_and_doubles_nothing_and_sigterm_publishes(session: xpsql.Session, tmp_path: Path) -> None:
    """Killed while a version is written and the next rows are learned; resumed; ended by SIGTERM."""
    landing, relation = tmp_path / "landing", f"parquet.`{tmp_path / 'landing'}`"
    arrives(landing, "a", 400, seed=1)
    train(session, relation)
    text = staying(relation, f"PUBLISH EVERY 200 EXAMPLES {TWO}")
    process = CONTEXT.Process(target=stay, args=(tmp_path / "warehouse", text, False, 1))
    process.start()
    for number in range(5):
        arrives(landing, f"b{number}", 300, seed=2 + number)
        time.sleep(0.05)
    process.join(DEADLINE_SECONDS)
    assert process.exitcode == -signal.SIGKILL
    assert [(v.number, v.manifest.status) for v in session.models.versions("m")][2:] == [(3, "interrupted")]
    again = CONTEXT.Process(target=stay, args=(tmp_path / "warehouse", text, True, 1 << 30))
    again.start()
    arrives(landing, "c", 100, seed=9)
    until(lambda: (now := session.models.residence("m").status()) is not None and now.process == again.pid and not now.lag_rows)
    assert again.pid is not None
    os.kill(again.pid, signal.SIGTERM)
    again.join(DEADLINE_SECONDS)
    assert again.exitcode == 0
    assert learned(go_on(session, relation))[1:] == ("nothing new", 0)
    assert total(session) == (2000, 2000)
    assert session.models.version("m").manifest.learned.examples_total == 2000


def test_a_stream_that_stays_refuses_what_it_cannot_give(session: xpsql.Session) -> None:
    for clauses, message in (
        ("PUBLISH EVERY 1 MINUTE WITH (passes = 2)", "reads what arrives once"),
        ("PUBLISH EVERY 1 MINUTE WITH (until = 'available')", "leave out one"),
        ("PUBLISH EVERY 0 EXAMPLES", "of at least 1"),
        ("RETAIN LAST 3 WITH (until = 'available')", "goes with PUBLISH EVERY"),
    ):
        with pytest.raises(StatementError, match=message):
            session.sql(staying("t", clauses, "TRAIN"))
    assert threading.active_count() < 50


def test_a_worker_whose_turn_another_one_takes_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    both, asks = threading.Barrier(2), threading.Semaphore(0)
    take = Dealer.next

    def meet(dealer: Dealer, worker: int) -> TurnAssignment | None:
        """Let both workers find the turn before either takes it."""
        if dealer.waiting:
            asks.release()
            both.wait(DEADLINE_SECONDS)
        return take(dealer, worker)

    dealer = GrowingDealer(2)
    dealer.add([Turn(0, 0)])
    monkeypatch.setattr(Dealer, "next", meet)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(dealer.next, worker) for worker in range(2)]
        assert all(asks.acquire(timeout=DEADLINE_SECONDS) for _ in asked)
        first, (other,) = wait(asked, DEADLINE_SECONDS, FIRST_COMPLETED)
        monkeypatch.setattr(Dealer, "next", take)
        dealer.add([Turn(0, 1)])
        dealer.close()
        found = [future.result(DEADLINE_SECONDS) for future in (*first, other)]
    assert [one and one.turn for one in found] == [Turn(0, 0), Turn(0, 1)]


def test_a_training_that_stays_in_the_background_of_a_script_stops_at_sigterm_and_hears_no_ctrl_c() -> None:
    stops: list[bool] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopped_by_signals(lambda: stops.append(True)):
            os.kill(os.getpid(), signal.SIGINT)
            assert stops == []
            os.kill(os.getpid(), signal.SIGTERM)
            assert stops == [True]
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
