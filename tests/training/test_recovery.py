"""Trainings whose shards and workers are processes, some of which are killed: nothing is lost, nothing counts twice."""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, lengthy, slow
from tests.chaos.model import weights
from tests.chaos.proxy import Proxy
from tests.notes import Notes
from tests.training.log import write
from tests.training.processes import ProcessTasks
from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.service import PUSH
from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.ps.transport.wire import Method
from xpsql.platform.scoring import prediction, tasks
from xpsql.platform.session import Session
from xpsql.platform.training import parallelism
from xpsql.platform.training.checkpoints import recovery
from xpsql.platform.training.checkpoints.recovery import Recoveries
from xpsql.platform.training.monitor import Monitor
from xpsql.platform.training.packaged import learn
from xpsql.platform.training.tasks import driver as of_tasks
from xpsql.platform.training.tasks import job
from xpsql.platform.training.tasks.coordinator import Coordinator
from xpsql.platform.training.tasks.driver import Driver
from xpsql.platform.training.tasks.job import NextTurn, Take
from xpsql.platform.training.tasks.messages import ShardAddresses

ROWS, PASSES = 3000, 20
SHARDS, WORKERS = "xpsql: shards of m v1", "xpsql: train m v1"


Event = tuple[int, Callable[[], None] | tuple[str, int]]


class Killer(Notes):
    """Does what a test says when so many examples are learned; each once.

    Args:
        apart: each is a loss, and the next one waits until it is recovered from: progress comes in jumps, and two kills at once
            would be one recovery.
    """

    def __init__(self, apart: bool = False) -> None:
        super().__init__()
        self.plan: list[tuple[int, Callable[[], None]]] = []
        self._apart, self._done, self.noted = apart, 0, threading.Event()

    def note(self, message: str) -> None:
        super().note(message)
        self.noted.set()

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        while self.plan and examples >= self.plan[0][0] and not (self._apart and self.recoveries < self._done):
            self._done += 1
            self.plan.pop(0)[1]()

    @property
    def recoveries(self) -> int:
        return sum("Recovered after" in note for note in self.notes)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    user, price = random.integers(0, 300, ROWS), random.normal(50, 10, ROWS)
    label = (random.random(ROWS) < 0.2 + 0.3 * (user % 3 == 0) + 0.2 * (price > 55)).astype(np.int32)
    table = pa.table({"label": label, "user": user, "item": (user % 7).astype(str), "price": price})
    return write(table, tmp_path / "log.parquet", row_group_rows=700)


def train(
    folder: Path, log: Path, options: str, monkeypatch: pytest.MonkeyPatch, *plan: Event, clauses: str = ""
) -> tuple[pa.Table, pa.Table, list[str]]:
    """Train with tasks as processes, some of which are killed.

    Args:
        plan: after how many examples something happens: a kill of a task, (kind, number), or a function that is called.

    Returns:
        The rows, the lines of progress, and what the log said.
    """
    tasks, killer = ProcessTasks(8), Killer(apart=True)

    def happening(what: Callable[[], None] | tuple[str, int]) -> Callable[[], None]:
        return (lambda: tasks.started[what[0]].kill(what[1])) if isinstance(what, tuple) else what

    killer.plan = [(examples, happening(what)) for examples, what in plan]
    with xpsql.connect(folder, reporter=killer) as session:
        monkeypatch.setattr(session.engine, "tasks", tasks, raising=False)
        settings = f"WITH (batch_size = 20, passes = {PASSES}, {options})"
        session.sql(f"TRAIN MODEL m USING xftrl {clauses} {settings} AS SELECT * FROM parquet.`{log}`")
        assert not killer.plan
        rows = weights(session)
        info = session.sql("SELECT * FROM ML.TRAINING_INFO(MODEL m) ORDER BY time")
        check_examples(session)
        found = rows, info.arrow(), killer.notes
    assert all(not process.is_alive() for job in tasks.started.values() for process in job.processes)
    return found


def check_examples(session: Session) -> None:
    manifest = session.models.version("m").manifest
    assert (manifest.learned.examples, manifest.metrics["examples"]) == (PASSES * ROWS, ROWS)


def check_counts(rows: pa.Table, log: Path) -> None:
    """Require that every example has counted once per pass."""
    slots = rows.group_by("slot").aggregate([("count", "sum"), ("shows", "sum"), ("clicks", "sum")]).to_pylist()
    clicks = PASSES * int(pa.parquet.read_table(log)["label"].to_numpy().sum())
    assert {row["slot"]: row["count_sum"] for row in slots} == dict.fromkeys(
        ("(intercept)", "item", "price", "user"), PASSES * ROWS
    )
    assert {row["clicks_sum"] for row in slots} == {clicks}


@contextmanager
def behind_proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Address, Proxy]]:
    """Give the proxies that stand between workers and the shards of trainings, by the shards' addresses, in their order."""
    with ExitStack() as stack:
        proxies: dict[Address, Proxy] = {}

        def find(coordinator: Coordinator, _: object) -> ShardAddresses:
            addresses = coordinator.shards() or ()
            for address in addresses:
                if address not in proxies:
                    proxies[address] = stack.enter_context(Proxy(address, delay_seconds=0.002, seed=3))
            return ShardAddresses(tuple(proxies[address].address for address in addresses))

        monkeypatch.setattr(Coordinator, "_find", find)
        yield proxies


@slow
def test_pushes_that_a_dead_connection_delivers_late_count_once(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, cutting = list[int](), list[threading.Thread]()
    with behind_proxies(monkeypatch) as proxies:

        def hold_and_cut(at_once: bool) -> None:
            proxy, deadline = list(proxies.values())[-1], time.monotonic() + 30
            proxy.hold(PUSH.kind)
            while PUSH.kind not in proxy.held and time.monotonic() < deadline:
                time.sleep(0.001)
            proxy.cut()
            if at_once:
                late.append(proxy.deliver().count(PUSH.kind))

        def begin(at_once: bool) -> None:
            cutting.append(threading.Thread(target=hold_and_cut, args=(at_once,)))
            cutting[-1].start()

        def deliver() -> None:
            cutting[-1].join()
            late.append(list(proxies.values())[-1].deliver().count(PUSH.kind))

        plan = ((3000, lambda: begin(True)), (9000, lambda: begin(False)), (15000, deliver))
        rows, info, _ = train(tmp_path / "w", log, "workers = 2, shards = 2", monkeypatch, *plan)
    check_counts(rows, log)
    assert max(info["recoveries"].drop_null().to_pylist()) >= 2
    assert sum(proxy.cuts for proxy in proxies.values()) >= 2
    assert all(late)
    assert len(late) == 2


@slow
def test_with_bsp_the_model_after_kills_is_the_one_without(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "workers = 2, shards = 2, sync = 'bsp', checkpoint_seconds = 1"
    clauses, kills = "EVALUATE EVERY 5 BATCHES ON 2 BATCHES", ((12000, (WORKERS, 1)), (24000, (SHARDS, 1)))
    expected, before, _ = train(tmp_path / "without", log, options, monkeypatch, clauses=clauses)
    found, after, notes = train(tmp_path / "with", log, options, monkeypatch, *kills, clauses=clauses)
    assert found.equals(expected)
    check_counts(found, log)
    assert max(after["recoveries"].drop_null().to_pylist()) == len(kills) == sum("Recovered after" in note for note in notes)
    assert after["recovery_seconds"].drop_null()[0].as_py() > 0
    short = [key for key, measured in windows(before).items() if windows(after).get(key) != measured]
    assert len(short) <= 2 * len(kills)  # those that a checkpoint stood in, one of each worker
    assert all(key not in windows(after) or windows(after)[key][0] < windows(before)[key][0] for key in short)
    assert sum(note.startswith("Window ") for note in notes) >= len(short)
    assert any(note.startswith("Continuing from checkpoint 00000") for note in notes)


def windows(info: pa.Table) -> dict[tuple[int, ...], list[float]]:
    """Return the metrics of each window."""
    place, measured = ["pass", "split", "window"], ["examples", "auc", "logloss", "pcopc"]
    lines = [line for line in info.select([*place, *measured]).to_pylist() if line["window"] is not None]
    return {tuple(line[name] for name in place): [line[name] for name in measured] for line in lines}


@costly
def test_a_search_over_all_examples_begins_again_and_ends_the_same(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name, kills in (("without", []), ("with", [(0, WORKERS)])):
        tasks, killer = ProcessTasks(8), Killer()
        killer.plan = [(examples, lambda tasks=tasks, job=job: tasks.started[job].kill(1)) for examples, job in kills]
        with xpsql.connect(tmp_path / name, reporter=killer) as session:
            monkeypatch.setattr(session.engine, "tasks", tasks, raising=False)
            session.sql(f"TRAIN MODEL m USING owlqn WITH (workers = 2) AS SELECT * FROM parquet.`{log}`")
            assert not killer.plan
            assert len(killer.notes) == len(kills)
            found.append(session.sql("SELECT key, weight, count FROM ML.WEIGHTS(MODEL m) ORDER BY key").arrow())
            found.append(session.sql("SELECT examples, auc FROM ML.EVALUATE(MODEL m)").arrow())
    assert found[2:] == found[:2]


@slow
def test_workers_of_a_package_begin_again_and_end_the_same(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, whole = [], learn.numbered
    for name, kills in (("without", []), ("with", [1])):
        tasks, killer = ProcessTasks(8), Killer()

        def numbered(*given: Any, tasks: ProcessTasks = tasks, kills: list[int] = kills) -> Any:
            if kills:
                tasks.started[WORKERS].kill(kills.pop())
            return whole(*given)

        monkeypatch.setattr(learn, "numbered", numbered)
        with xpsql.connect(tmp_path / name, reporter=killer) as session:
            monkeypatch.setattr(session.engine, "tasks", tasks, raising=False)
            session.sql(f"TRAIN MODEL m USING xgboost (rounds = 10) WITH (workers = 2) AS SELECT * FROM parquet.`{log}`")
            assert bool(killer.notes) == (name == "with")
            monkeypatch.setattr(session.engine, "tasks", None)
            query = f"SELECT predicted_label AS p FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{log}`))"
            found.append(session.sql(query).arrow()["p"].to_numpy())
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


@costly
def test_a_shard_without_memory_fails_the_training_with_the_numbers_after_a_checkpoint(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, granted = ProcessTasks(8), [1 << 40, 1 << 10]
    monkeypatch.setattr(tasks, "memory_bytes", lambda: granted.pop(0) if granted else None)  # enough, as far as is known before
    with xpsql.connect(tmp_path / "w", reporter=SilentReporter()) as session:
        monkeypatch.setattr(session.engine, "tasks", tasks, raising=False)
        settings = f"WITH (batch_size = 100, passes = {PASSES}, workers = 2, shards = 2, checkpoint_seconds = 0)"
        with pytest.raises(TrainingError, match=r"Shard \d of m v1 holds [\d,]+ rows in .* There is room for no more rows"):
            session.sql(f"TRAIN MODEL m USING xftrl {settings} AS SELECT * FROM parquet.`{log}`")
        assert session.sql("SHOW VERSIONS OF MODEL m").arrow()["status"].to_pylist() == ["interrupted"]
        session.sql("RESUME MODEL m")
        check_counts(session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow(), log)
        check_examples(session)


@lengthy
def test_predictions_go_on_when_a_worker_and_a_server_are_killed(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes, killer, take, taken = ProcessTasks(8), Killer(), tasks.ScoringDriver._take, itertools.count(1)

    def take_once_noted(driver: tasks.ScoringDriver, request: Take) -> NextTurn:
        if next(taken) > 2:  # splits, while five are: some are left when the loss is noted, however fast the others are
            assert killer.noted.wait(60)
        return take(driver, request)

    query = f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{log}`))"
    with xpsql.connect(tmp_path / "w", reporter=killer) as session:
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT * FROM parquet.`{log}`")
        expected = session.sql(query).arrow()
        monkeypatch.setattr(session.engine, "tasks", processes, raising=False)
        monkeypatch.setattr(prediction, "SMALL_ROWS", 0)
        monkeypatch.setattr(parallelism, "BYTES_PER_SHARD", 1000)
        monkeypatch.setattr(tasks.ScoringDriver, "_take", take_once_noted)
        killed = (1, "xpsql: predictions of m v1", 4), (1400, "xpsql: shards of predictions of m v1", 1)
        killer.plan = [(examples, functools.partial(kill, processes, job, number)) for examples, job, number in killed]
        assert session.sql(query).arrow().equals(expected)
    assert not killer.plan
    assert killer.notes  # one loss or two: the second kill may fall into the first one's recovery
    assert all(note.startswith("Lost ") for note in killer.notes)


def kill(tasks: ProcessTasks, job: str, number: int) -> None:
    tasks.started[job].kill(number)


def test_predictions_that_are_lost_again_and_again_fail_and_say_so() -> None:
    driver = tasks.ScoringDriver(3, 2, SilentReporter())
    for _ in range(recovery.MOST):
        driver.lost(LostError("Lost shard 1."))
    with pytest.raises(TrainingError, match=r"Lost tasks 11 times while no further split was written\. Lost shard 1\."):
        driver.lost(LostError("Lost shard 1."))


def test_the_driver_answers_every_call_that_tasks_make_of_it() -> None:
    made = {call.name for call in vars(job).values() if isinstance(call, Method)} - {
        "save",
        "begin pass",
    }  # which shards answer
    driver = Driver(cast(Any, mock.MagicMock()), cast(Any, mock.MagicMock()), cast(Any, None), {})
    assert {handler.call.name for handler in driver.handlers} == made


def test_a_worker_that_is_lost_before_the_shards_serve_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_tasks, "ASK_SECONDS", 0.0)
    recoveries = mock.MagicMock()
    driver = Driver(cast(Any, mock.MagicMock()), cast(Any, mock.MagicMock()), recoveries, {})
    driver._lost(1, "process 7 on here: its connection is gone", 0.5)
    ((who, error, silent),) = (call.args for call in recoveries.lost.call_args_list)
    assert (who, str(error), silent) == ("worker 1", "Lost worker 1, process 7 on here: its connection is gone.", 0.5)
    with pytest.raises(LostError, match="asked for work before the driver had the addresses of the shards"):
        driver._take(job.Take(1, 0))


def test_a_loss_after_the_last_batch_is_reported_too() -> None:
    recoveries = mock.MagicMock()
    driver = Driver(cast(Any, mock.MagicMock()), cast(Any, mock.MagicMock()), recoveries, {})
    driver.run_workers(cast(Any, None))
    recoveries.over.assert_called_once_with()


class Counted:
    """Stands for a monitor: how far the training has come."""

    def __init__(self) -> None:
        self.counted: dict[int, int] = {}
        self.reported: list[str] = []

    def recovered(self, why: str, seconds: float) -> None:
        self.reported.append(why)


def test_a_training_that_is_lost_again_and_again_without_progress_fails_and_says_so() -> None:
    monitor = Counted()
    recoveries = Recoveries(cast(Monitor, monitor))
    for number in range(3):
        monitor.counted[0] = number + 1
        for _ in range(recovery.MOST):
            recoveries.lost("worker 3", LostError("it is gone."))
            recoveries.lost("worker 4", LostError("it is gone too."))
            recoveries.over()
    with pytest.raises(TrainingError, match=r"Lost worker 3 11 times without progress\. The last errors: it is gone\."):
        recoveries.lost("worker 3", LostError("it is gone."))
    assert len(monitor.reported) == 3 * recovery.MOST
