"""Ctrl-C while an engine runs a query."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cases import costly_after_first, lengthy
from tests.sparks import REMOTE
from xpsql.platform.engines.spark import tasks
from xpsql.platform.engines.spark.engine import SparkEngine
from xpsql.platform.engines.tasks import Task
from xpsql.platform.engines.waiting import held
from xpsql.platform.models.exports import write_csv

CODE = """
import os, signal
import pyarrow as pa
from xpsql.platform.engines.duckdb.connection import connect
from xpsql.platform.engines.duckdb.results import streamed

def pressed(number: int) -> int:
    if number == {row}:
        os.kill(os.getpid(), signal.SIGINT)
    return number

connection = connect(1)
connection.create_function("pressed", pressed, ["BIGINT"], "BIGINT", side_effects=True)
try:
    streamed(connection, "{query}", "").read_all()
except KeyboardInterrupt:
    print("interrupted")
"""
STARTING = """
import os, signal, threading
from xpsql.platform.engines.waiting import awaited

class Connection:
    def __init__(self) -> None:
        self.ended = threading.Event()
        self.interrupt = self.ended.set

def run(connection: Connection) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    assert connection.ended.wait(10), "nobody ended it"

for _ in range(200):
    connection = Connection()
    try:
        awaited(connection, lambda: run(connection))
    except KeyboardInterrupt:
        assert connection.ended.is_set(), "it goes on"
print("interrupted")
"""
ENDLESS = "FROM (SELECT pressed(i) AS n FROM range(1000000) t(i)), range(1000000) u(j), range(1000000) v(k)"


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    ("row", "query"),
    [
        (0, f"SELECT sum(n + j * k) {ENDLESS}"),  # before its first batch
        (200_000, "SELECT pressed(i) AS n FROM range(1000000000000000) t(i) WHERE i < 300000 OR i < 0"),  # after it
    ],
)
def test_ctrl_c_ends_a_query(row: int, query: str) -> None:
    check_interrupted(CODE.format(row=row, query=query))


def test_ctrl_c_ends_what_has_only_begun() -> None:
    check_interrupted(STARTING)


def check_interrupted(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


QUERY = "SELECT pressed(id) AS n FROM range(0, 1, 1, 1)"
LONG_SECONDS = 60.0
ACTIONS: list[Callable[[SparkEngine, Path], object]] = [
    lambda engine, folder: engine.execute(QUERY),
    lambda engine, folder: engine.execute(f"CREATE TABLE t AS {QUERY}"),
    lambda engine, folder: engine.stage(QUERY, folder),
    lambda engine, folder: engine.write_files(QUERY, folder, ".csv", write_csv),
]


@pytest.fixture
def notebook() -> Iterator[None]:
    """Let Ctrl-C be what it is in notebooks, where PySpark does not see it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@lengthy
@costly_after_first
@pytest.mark.parametrize("act", ACTIONS, ids=("query", "table", "stage", "files"))
def test_ctrl_c_leaves_no_job_of_spark_behind(
    spark_engine: SparkEngine, tmp_path: Path, notebook: None, act: Callable[[SparkEngine, Path], object]
) -> None:
    driver = os.getpid()

    def pressed(number: int) -> int:
        os.kill(driver, signal.SIGINT)
        threading.Event().wait(LONG_SECONDS)
        return number

    spark_engine.spark.udf.register("pressed", pressed, "bigint")
    (tmp_path / "folder").mkdir()
    with pytest.raises(KeyboardInterrupt):
        act(spark_engine, tmp_path / "folder")
    assert active_jobs(spark_engine) == []
    assert [path for path in (tmp_path / "folder").rglob("*") if path.is_file()] == []


def test_ctrl_c_ends_the_tasks_that_it_finds_starting(
    spark_engine: SparkEngine, notebook: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pressed(tasks.SparkJob):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            os.kill(os.getpid(), signal.SIGINT)

    def waits(task: Task) -> None:
        threading.Event().wait(LONG_SECONDS)

    monkeypatch.setattr(tasks, "SparkJob", Pressed)
    with pytest.raises(KeyboardInterrupt):
        spark_engine.tasks.start(waits, 1, "waits", False)
    assert active_jobs(spark_engine) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_for_what_must_not_be_cut(notebook: None, sent: signal.Signals) -> None:
    done, before = [], signal.signal(signal.SIGTERM, signal.default_int_handler)

    def whole() -> None:
        with held():
            os.kill(os.getpid(), sent)
            done.append(True)

    try:
        with pytest.raises(KeyboardInterrupt):
            whole()
        assert signal.getsignal(sent) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done


def active_jobs(engine: SparkEngine) -> list[Any]:
    if REMOTE:
        return cast(Any, engine.spark).interruptAll()  # names what it ends
    context = engine.spark.sparkContext
    cast(Any, context)._jsc.sc().listenerBus().waitUntilEmpty()
    return list(context.statusTracker().getActiveJobsIds())
