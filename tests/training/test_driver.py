"""Trainings and predictions whose shards and workers are processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.chaos.model import weights
from tests.training.log import write
from tests.training.processes import ProcessTasks
from xpsql.platform.engines.tasks import Running, Task
from xpsql.platform.errors import DataError, StatementError, TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps import gang
from xpsql.platform.scoring import prediction
from xpsql.platform.session import Session
from xpsql.platform.training import parallelism
from xpsql.platform.training.tasks import worker_task
from xpsql.platform.training.tasks.job import Job
from xpsql.platform.training.tasks.membership import EndedError, Membership

ROWS = 3000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    user, price = random.integers(0, 300, ROWS), random.normal(50, 10, ROWS)
    label = (random.random(ROWS) < 0.2 + 0.3 * (user % 3 == 0) + 0.2 * (price > 55)).astype(np.int32)
    item = np.where(random.random(ROWS) < 0.1, None, (user % 7).astype(str))
    table = pa.table({"label": label, "user": user, "item": pa.array(item, pa.string()), "price": price})
    return write(table, tmp_path / "log.parquet", row_group_rows=700)


def opened(folder: Path, tasks: ProcessTasks | None, monkeypatch: pytest.MonkeyPatch) -> Session:
    session = xpsql.connect(folder, reporter=SilentReporter())
    monkeypatch.setattr(session.engine, "tasks", tasks, raising=False)
    monkeypatch.setattr(prediction, "SMALL_ROWS", 0)
    monkeypatch.setattr(parallelism, "BYTES_PER_SHARD", 1000)
    return session


def train(session: Session, log: Path, options: str) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl WITH (batch_size = 100, {options}) AS SELECT * FROM parquet.`{log}`")


@lengthy
@costly_after_first
@pytest.mark.parametrize("options", ["workers = 1, shards = 2", "workers = 3, shards = 2, sync = 'bsp'"])
def test_rows_are_those_of_a_training_in_one_process(
    options: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = []
    for name, tasks in (("here", None), ("there", ProcessTasks(8))):
        with opened(tmp_path / name, tasks, monkeypatch) as session:
            train(session, log, options)
            session.sql(f"CONTINUE MODEL m WITH (batch_size = 100, {options}) AS SELECT * FROM parquet.`{log}`")
            tables.append(weights(session))
            tables[-1] = tables[-1].append_column("auc", [pa.repeat(metric(session, "auc"), len(tables[-1]))])
    assert tables[0].equals(tables[1])


def metric(session: Session, name: str) -> float:
    return float(session.sql(f"SELECT {name} FROM ML.EVALUATE(MODEL m)").arrow().column(0)[0].as_py())


@costly
@pytest.mark.parametrize("sync", ["'asp'", "'ssp', slack = 1"])
def test_no_occurrence_is_lost_or_counted_twice(sync: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "warehouse", ProcessTasks(8), monkeypatch) as session:
        train(session, log, f"workers = 2, shards = 2, passes = 2, sync = {sync}")
        counts = session.sql("SELECT slot, sum(count) AS n FROM ML.WEIGHTS(MODEL m) GROUP BY slot ORDER BY slot").arrow()
        assert counts.to_pydict() == {"slot": ["(intercept)", "item", "price", "user"], "n": [2 * ROWS] * 4}
        lines = session.sql("SELECT examples, pass FROM ML.TRAINING_INFO(MODEL m) ORDER BY time DESC").arrow()
        assert (lines.column("examples")[0].as_py(), lines.column("pass")[0].as_py()) == (ROWS, 2)
        assert session.models.version("m").manifest.learned.examples == 2 * ROWS


@costly
def test_predictions_and_metrics_of_tasks_are_those_of_one_process(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = f"(SELECT * FROM parquet.`{log}`)"
    queries = [f"SELECT * FROM ML.PREDICT(MODEL m, {data})", f"SELECT * FROM ML.EVALUATE(MODEL m, {data})"]
    with opened(tmp_path / "warehouse", None, monkeypatch) as session:
        train(session, log, "shards = 1")
        here = [session.sql(query).arrow() for query in queries]
    tasks = ProcessTasks(8)
    with opened(tmp_path / "warehouse", tasks, monkeypatch) as session:
        there = [session.sql(query).arrow() for query in queries]
    assert len(tasks.started["xpsql: shards of predictions of m v1"].processes) == 2
    assert there == here


@lengthy
def test_bad_data_ends_all_tasks_with_its_own_message(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, bad = ProcessTasks(8), tmp_path / "bad.parquet"
    table = pa.table({"label": np.arange(ROWS) % 3, "user": np.arange(ROWS)})
    pq.write_table(table, bad, write_statistics=False)
    with opened(tmp_path / "warehouse", tasks, monkeypatch) as session:
        with pytest.raises(DataError, match="must be 0 or 1; row 2"):
            train(session, bad, "workers = 2, shards = 2")
        assert session.sql("SHOW VERSIONS OF MODEL m").arrow().column("status").to_pylist() == ["failed"]
    assert all(not process.is_alive() for job in tasks.started.values() for process in job.processes)


def stopping(function: Callable[[Task], None], task: Task) -> None:
    """Run a task; worker 1 does not begin its step, and the others wait for it longer than for any other answer."""

    def begin(member: Membership, task: Task, job: Job) -> bool:
        if task.number == 1:
            member.ended.wait()
            raise EndedError
        return True

    gang.HELD_UP_SECONDS, gang.STEP_SECONDS = 0.01, 2.0
    worker_task.DEADLINE_SECONDS, worker_task.begin = 0.5, begin
    function(task)


class Stopping(ProcessTasks):
    def start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        return super().start(functools.partial(stopping, function), count, name, gang)


@costly
def test_a_worker_that_stops_is_named_by_those_that_wait_for_it(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "warehouse", Stopping(8), monkeypatch) as session:
        with pytest.raises(TrainingError, match=r"Worker 0 waited 2 s for the step of worker 1\."):
            train(session, log, "workers = 2, shards = 1, sync = 'bsp'")
        assert session.sql("SHOW VERSIONS OF MODEL m").arrow().column("status").to_pylist() == ["failed"]


def test_too_few_slots_are_refused_before_anything_starts(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = ProcessTasks(3)
    with opened(tmp_path / "warehouse", tasks, monkeypatch) as session:
        with pytest.raises(StatementError, match=r"needs 4 tasks at once, 2 shards and 2 workers; This machine has room for 3"):
            train(session, log, "workers = 2, shards = 2")
        assert session.sql("SHOW MODELS").arrow().num_rows == 0
        tasks.num_slots = 1
        with pytest.raises(
            StatementError, match=r"2 tasks at once, 1 shard and 1 worker; This machine has room for 1\. Take more processes\."
        ):
            train(session, log, "seed = 7")
    assert not tasks.started


def test_too_little_memory_is_refused_before_anything_starts(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = ProcessTasks(3)
    tasks.memory = 1 << 10
    with opened(tmp_path / "warehouse", tasks, monkeypatch) as session:
        with pytest.raises(
            StatementError, match=r"This machine has 0 MiB for a task\. Take a larger machine, or use more shards than 1\."
        ):
            train(session, log, "workers = 2, shards = 1")
        assert session.sql("SHOW MODELS").arrow().num_rows == 0
    assert not tasks.started
