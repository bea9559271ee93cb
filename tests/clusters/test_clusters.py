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
from xpsql.platform.progress import SilentReporter

from ..training.log import write
from .standalone import standalone

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install a JDK, version 17 or newer")

ROWS = 3000
SECONDS = 400


@pytest.fixture
def log(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    user = random.integers(0, 300, ROWS)
    label = (random.random(ROWS) < 0.2 + 0.3 * (user % 3 == 0)).astype(np.int32)
    return write(pa.table({"label": label, "user": user}), tmp_path / "log.parquet", row_group_rows=700)


def run(master: str, log: Path, warehouse: Path) -> dict[str, Any]:
    """Run the program of this folder as a process of its own."""
    command = [sys.executable, "-m", "tests.clusters.program", master, str(log), str(warehouse)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(found: dict[str, Any], log: Path, folder: Path) -> None:
    """Require what the embedded engine gives."""
    query = f"SELECT * FROM parquet.`{log}`"
    settings = "WITH (workers = 2, shards = 2, sync = 'bsp', batch_size = 100)"
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl {settings} AS {query}")
        rows = session.sql("SELECT key, weight, count FROM ML.WEIGHTS(MODEL m) ORDER BY key").arrow().to_pylist()
        total = session.sql(f"SELECT sum(predicted_label) AS total FROM ML.PREDICT(MODEL m, ({query}))").arrow()
    assert len(set(found["executors"])) == 2
    assert {"xpsql: shards of m v1", "xpsql: train m v1"} <= set(found["jobs"])
    assert [(row["key"], row["count"]) for row in found["weights"]] == [(row["key"], row["count"]) for row in rows]
    assert [row["weight"] for row in found["weights"]] == pytest.approx([row["weight"] for row in rows], rel=1e-5, abs=1e-7)
    assert found["exported"] == [{"n": len(rows)}]
    assert found["scored"] == [{"n": ROWS, "total": pytest.approx(total["total"][0].as_py())}]


def test_a_local_cluster_gives_what_one_process_gives(log: Path, tmp_path: Path) -> None:
    check(run("local-cluster[2,2,1024]", log, tmp_path / "there"), log, tmp_path / "here")


def test_a_standalone_cluster_gives_what_one_process_gives(log: Path, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        check(run(master, log, tmp_path / "there"), log, tmp_path / "here")
