"""Trainings on Spark whose input is what clusters really have."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.notes import Notes
from tests.sparks import REMOTE, needs_context
from xpsql.platform.errors import TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring import prediction
from xpsql.platform.training.tasks.coordinator import Coordinator
from xpsql.platform.training.tasks.messages import Join, Joined

ROWS = 2000


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", engine=spark, reporter=SilentReporter()) as session:
        yield session


def rows() -> pd.DataFrame:
    random = np.random.default_rng(0)
    user = random.integers(0, 50, ROWS)
    return pd.DataFrame({"label": (random.random(ROWS) < 0.1 + 0.5 * (user % 2)).astype(np.int32), "user": user})


def counts(session: xpsql.Session) -> dict[str, int]:
    found = session.sql("SELECT slot, sum(count) AS n FROM ML.WEIGHTS(MODEL m) GROUP BY slot").arrow().to_pylist()
    return {row["slot"]: row["n"] for row in found}


@costly
@pytest.mark.parametrize("partitions", ["user % 2", "0", "user"])
def test_no_row_is_lost_in_empty_skewed_or_many_partitions(
    session: xpsql.Session, spark: SparkSession, partitions: str
) -> None:
    spark.createDataFrame(rows()).createOrReplaceTempView("log")
    spark.conf.set("spark.sql.shuffle.partitions", "20")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    session.sql(f"TRAIN MODEL m USING xftrl WITH (workers = 2, shards = 1) AS SELECT * FROM log DISTRIBUTE BY {partitions}")
    assert counts(session) == {"user": ROWS, "(intercept)": ROWS}


@costly
def test_one_giant_row_is_learned(session: xpsql.Session) -> None:
    session.sql(
        "TRAIN MODEL m USING xftrl AS SELECT id % 2 AS label, transform(sequence(1, if(id = 7, 200000, 2)), x -> "
        "concat('value ', x)) AS tags FROM range(50)"
    )
    assert counts(session) == {"tags": 49 * 2 + 200_000, "(intercept)": 50}


@costly
def test_the_message_of_a_failing_function_reaches_the_user(session: xpsql.Session, spark: SparkSession) -> None:
    def strict(value: int) -> int:
        if value == 1234:
            raise ValueError("user 1234 is not known")
        return value

    spark.udf.register("strict", strict, "bigint")
    with pytest.raises(xpsql.XpsqlError, match="user 1234 is not known"):
        session.sql("TRAIN MODEL m USING xftrl AS SELECT id % 2 AS label, strict(id) AS user FROM range(2000)")
    assert session.sql("SHOW MODELS").arrow().num_rows == 0


@costly
def test_a_model_that_is_encrypted_trains_and_scores(
    session: xpsql.Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "SMALL_ROWS", 0)
    spark.createDataFrame(rows()).createOrReplaceTempView("log")
    session.sql("TRAIN MODEL m USING xftrl WITH (workers = 1, shards = 1, encrypt = true) AS SELECT * FROM log")
    assert counts(session) == {"user": ROWS, "(intercept)": ROWS}
    scored = session.sql("SELECT count(*) AS n FROM ML.PREDICT(MODEL m, TABLE log) WHERE predicted_label > 0")
    assert scored.arrow()["n"][0].as_py() == ROWS


@costly
def test_trainings_side_by_side_do_not_meet(session: xpsql.Session, spark: SparkSession) -> None:
    spark.createDataFrame(rows()).createOrReplaceTempView("log")

    def train(name: str, users: int) -> None:
        settings = "WITH (workers = 1, shards = 1, batch_size = 50)"
        session.sql(f"TRAIN MODEL {name} USING xftrl {settings} AS SELECT * FROM log WHERE user < {users}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(train, ["few", "m"], [40, 50]))
    users = "SELECT count(*) AS n FROM ML.WEIGHTS(MODEL {}) WHERE slot = 'user'"
    assert session.sql(users.format("m")).arrow()["n"][0].as_py() == 50
    assert session.sql(users.format("few")).arrow()["n"][0].as_py() == 40
    assert counts(session) == {"user": ROWS, "(intercept)": ROWS}


class Failing(Notes):
    """Fails the first training as it tells how far it is, once there is a checkpoint."""

    def __init__(self, warehouse: Path) -> None:
        super().__init__()
        self._warehouse, self.failed = warehouse, False

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        if not self.failed and any(self._warehouse.glob("models/m/v1/checkpoints/*/manifest.json")):
            self.failed = True
            raise TrainingError("no more")


class Canceller(Notes):
    """Cancels jobs of Spark when something is learned."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        super().__init__()
        self.cancel = cancel

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        self.cancel()


def test_a_training_ends_where_a_tag_of_its_thread_is_interrupted(spark: SparkSession, warehouse: Path) -> None:
    if not REMOTE:
        pytest.skip("sessions of this process have job groups")
    tagged: Any = spark
    reporter = Canceller(lambda: tagged.interruptTag("mine"))
    settings = "WITH (workers = 1, shards = 1, batch_size = 50, passes = 10000)"
    spark.createDataFrame(rows()).createOrReplaceTempView("log")
    with xpsql.connect(warehouse, engine=spark, reporter=reporter) as session:
        tagged.addTag("mine")
        try:
            with pytest.raises(xpsql.CancelledError, match=r"'xpsql: .* m v1' was cancelled\."):
                session.sql(f"TRAIN MODEL m USING xftrl {settings} AS SELECT * FROM log")
        finally:
            tagged.removeTag("mine")
    assert reporter.notes == []  # nothing was begun again


def test_a_client_that_executors_do_not_reach_is_told_so_before_anything_is_learned(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not REMOTE:
        pytest.skip("executors reach the driver of a session of this process, or there is no session")
    monkeypatch.setattr("xpsql.platform.engines.spark.connect.addresses", lambda: ["client.invalid"])
    message = "by none of its addresses, client.invalid, as a training needs. Run this program in the cluster's network"
    with xpsql.connect(warehouse, engine=spark, reporter=SilentReporter()) as session:
        with pytest.raises(xpsql.NotAvailableError, match=message):
            session.sql("TRAIN MODEL m USING xftrl AS SELECT id % 2 AS label, id AS user FROM range(100)")
        shown = session.sql("SHOW MODELS").arrow()
        assert (shown["status"].to_pylist(), shown["examples"].to_pylist()) == (["failed"], [0])


@lengthy
@needs_context
def test_a_training_ends_where_the_job_group_of_its_thread_is_cancelled(spark: SparkSession, warehouse: Path) -> None:
    reporter = Canceller(lambda: spark.sparkContext.cancelJobGroup("mine"))
    settings = "WITH (workers = 1, shards = 1, batch_size = 50, passes = 10000)"
    spark.createDataFrame(rows()).createOrReplaceTempView("log")
    with xpsql.connect(warehouse, engine=spark, reporter=reporter) as session:
        spark.sparkContext.setJobGroup("mine", "a training")
        try:
            with pytest.raises(xpsql.CancelledError, match=r"'xpsql: .* m v1' was cancelled\. .* group mine"):
                session.sql(f"TRAIN MODEL m USING xftrl {settings} AS SELECT * FROM log")
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None unsets it
    assert reporter.notes == []  # nothing was begun again


@costly
def test_a_loss_before_the_first_worker_has_joined_a_resumed_gang_is_recovered_from(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpsql.platform.training.monitor.TELL_SECONDS", 0.0)
    spark.createDataFrame(rows()).createOrReplaceTempView("log")
    join, reporter, struck = Coordinator._join, Failing(warehouse), list[Coordinator]()

    def joined(coordinator: Coordinator, request: Join) -> Joined:
        if not reporter.failed or request.role == "shard" or (struck and struck[0] is not coordinator):
            return join(coordinator, request)
        if not struck:
            struck.append(coordinator)
            os.kill(request.process, signal.SIGKILL)
        return Joined(accepted=False)

    monkeypatch.setattr(Coordinator, "_join", joined)
    settings = "sync = 'bsp', workers = 2, shards = 1, batch_size = 50, checkpoint_seconds = 0.05, passes = 20"
    train = f"TRAIN OR REPLACE MODEL m USING xftrl WITH ({settings}) AS SELECT * FROM log"
    query = "SELECT key, weight, count FROM ML.WEIGHTS(MODEL m) ORDER BY key"
    with xpsql.connect(warehouse, engine=spark, reporter=reporter) as session:
        with pytest.raises(TrainingError, match="no more"):
            session.sql(train)
        assert session.sql("RESUME MODEL m").arrow().to_pylist()[0]["status"] == "ready"
        assert struck
        resumed = session.sql(query).arrow()
        session.sql(train)
        assert resumed.equals(session.sql(query).arrow())
    assert sum("Recovered after" in note for note in reporter.notes) == 1
