"""A program on a cluster of several executors: `program MASTER LOG WAREHOUSE`; prints what it finds as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import xpsql
from tests.java import EXECUTORS
from xpsql.platform.engines.spark.engine import SparkEngine
from xpsql.platform.engines.tasks import Task
from xpsql.platform.errors import XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring import prediction

SETTINGS = {
    **EXECUTORS,
    "spark.ui.port": "0",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.driver.host": "127.0.0.1",
}


def parent(pid: int) -> int:
    """Return the process that started another one."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[1])


def executors(engine: SparkEngine, count: int) -> list[int]:
    """Return the executors' processes of some tasks that run at once."""
    with tempfile.TemporaryDirectory() as folder:

        def note(task: Task) -> None:
            daemon = parent(os.getpid())
            (Path(folder) / f"{task.number}.part").write_text(str(parent(daemon)), encoding="utf-8")
            (Path(folder) / f"{task.number}.part").rename(Path(folder) / str(task.number))
            deadline = time.monotonic() + 60
            while len(list(Path(folder).glob("[0-9]"))) < count and time.monotonic() < deadline:
                time.sleep(0.01)

        running = engine.tasks.start(note, count, "who runs where", False)
        assert running.wait(120)
        return [int((Path(folder) / str(number)).read_text(encoding="utf-8")) for number in range(count)]


def jobs(engine: SparkEngine) -> list[str]:
    """Return the names of the application's jobs, as Spark's pages show them."""
    context = engine.spark.sparkContext
    page = f"http://127.0.0.1:{str(context.uiWebUrl).rpartition(':')[2]}/api/v1/applications/{context.applicationId}/jobs"
    with urllib.request.urlopen(page, timeout=60) as answer:
        return [job.get("description", "") for job in json.load(answer)]


def unshared(engine: SparkEngine, query: str) -> list[str]:
    """Return the errors of statements in a warehouse by a path that means another folder in each process."""
    with tempfile.TemporaryDirectory() as folder:
        place = os.open(folder, os.O_RDONLY)
        statements = f"CREATE TABLE t AS {query}", f"TRAIN MODEL m USING xftrl AS {query}"
        errors = []
        try:
            with xpsql.connect(f"/proc/self/fd/{place}/warehouse", engine=engine.spark, reporter=SilentReporter()) as session:
                for statement in statements:
                    try:
                        session.sql(statement)
                    except XpsqlError as error:
                        errors.append(str(error))
        finally:
            os.close(place)
    return errors


def main(master: str, log: str, warehouse: str) -> None:
    prediction.SMALL_ROWS = 0
    with xpsql.connect(warehouse, engine="spark", master=master, conf=SETTINGS, reporter=SilentReporter()) as session:
        assert isinstance(session.engine, SparkEngine)
        assert session.engine.tasks.slots(4, True) == 4
        found: dict[str, object] = {"executors": executors(session.engine, 4)}  # all slots: those of both
        query = f"SELECT * FROM parquet.`{log}`"
        session.sql(f"TRAIN MODEL m USING xftrl WITH (workers = 2, shards = 2, sync = 'bsp', batch_size = 100) AS {query}")
        session.sql(f"CREATE TABLE scored AS SELECT * FROM ML.PREDICT(MODEL m, ({query}))")
        session.sql("EXPORT MODEL m TO TABLE exported")
        for name, text in {
            "scored": "SELECT count(*) AS n, sum(predicted_label) AS total FROM scored",
            "exported": "SELECT count(*) AS n FROM exported",
            "weights": "SELECT key, weight, count FROM ML.WEIGHTS(MODEL m) ORDER BY key",
        }.items():
            found[name] = session.sql(text).arrow().to_pylist()
        found["jobs"] = jobs(session.engine)
        found["unshared"] = unshared(session.engine, query) if sys.platform == "linux" else None
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
