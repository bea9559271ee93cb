"""Trainings, predictions and exports whose tasks run on several executors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.clusters.standalone import standalone
from tests.training.log import write
from xpsql.platform.progress import SilentReporter

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install a JDK, version 17 or newer")

ROWS = 3000
SECONDS = 400
FEATURES, DIM = 400_000, 64


@pytest.fixture
def log(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    user = random.integers(0, 300, ROWS)
    label = (random.random(ROWS) < 0.2 + 0.3 * (user % 3 == 0)).astype(np.int32)
    return write(pa.table({"label": label, "user": user}), tmp_path / "log.parquet", row_group_rows=700)


def run(program: str, *arguments: object) -> Any:
    """Run a program of this folder as a process of its own."""
    command = [sys.executable, "-m", f"tests.clusters.{program}", *map(str, arguments)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_cluster_gives_what_one_process_gives(log: Path, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        found = run("program", master, log, tmp_path / "there")
    query = f"SELECT * FROM parquet.`{log}`"
    settings = "WITH (workers = 2, shards = 2, sync = 'bsp', batch_size = 100)"
    with xpsql.connect(tmp_path / "here", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl {settings} AS {query}")
        rows = session.sql("SELECT key, weight, count FROM ML.WEIGHTS(MODEL m) ORDER BY key").arrow().to_pylist()
        total = session.sql(f"SELECT sum(predicted_label) AS total FROM ML.PREDICT(MODEL m, ({query}))").arrow()
    assert len(set(found["executors"])) == 2
    assert {"xpsql: shards of m v1", "xpsql: train m v1"} <= set(found["jobs"])
    assert [(row["key"], row["count"]) for row in found["weights"]] == [(row["key"], row["count"]) for row in rows]
    assert [row["weight"] for row in found["weights"]] == pytest.approx([row["weight"] for row in rows], rel=1e-5, abs=1e-7)
    if found["unshared"] is not None:
        assert ["a folder that the driver and all executors share" in error for error in found["unshared"]] == [True, True]
    assert found["exported"] == [{"n": len(rows)}]
    assert found["scored"] == [{"n": ROWS, "total": pytest.approx(total["total"][0].as_py())}]


def test_no_process_of_a_prediction_holds_the_whole_model(log: Path, tmp_path: Path) -> None:
    many = write(pa.table({"label": np.arange(FEATURES) % 2, "user": np.arange(FEATURES)}), tmp_path / "many.parquet")
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        for model, table in {"small": log, "large": many}.items():
            session.sql(f"TRAIN MODEL {model} USING fm (dim = {DIM}) AS SELECT * FROM parquet.`{table}`")
        query = f"SELECT sum(predicted_label) AS total FROM ML.PREDICT(MODEL large, (SELECT * FROM parquet.`{log}`))"
        total = session.sql(query).arrow()["total"][0].as_py()
    small, large = run("predictor", "local-cluster[2,4,1024]", tmp_path / "warehouse", log, "small", "large")
    assert large["total"] == pytest.approx(total)
    model_bytes = FEATURES * 4 * DIM
    assert large["most_bytes"] - small["most_bytes"] < 0.9 * model_bytes  # four shards hold it, and a process may have had two
