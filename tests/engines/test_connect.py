"""Spark Connect: the conformance suite of engines, and a training of each strategy, in a session without a SparkContext."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.conftest import SETTINGS
from tests.connect_server import serving
from tests.sparks import needs_context, needs_spark_4
from tests.training.log import log, write
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter

pytest.importorskip("grpc", reason="Spark Connect needs the extra connect")

SECONDS = 900


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server, which is another process with a JVM."""
    with serving("local[4]", SETTINGS, tmp_path_factory.mktemp("connect")) as address:
        yield address


OF_LOG = "LABEL label IGNORE (ts, vector, tags, scores)"
TRAININGS = {
    "batch by batch": f"USING xftrl {OF_LOG} WITH (workers = 2, shards = 1, sync = 'bsp', batch_size = 64)",
    "all examples at once": f"USING owlqn {OF_LOG} WITH (workers = 2)",
    "by another package": f"USING xgboost (rounds = 3) {OF_LOG} WITH (workers = 1)",
    "vertex programs": "USING pagerank SOURCE user TARGET item WITH (workers = 2)",
    "events of users": "USING sequence (item = item, dim = 4) GROUP user TIME ts WITH (workers = 1, passes = 1)",
}
"""One of each strategy, and one whose batches are users."""


FIRST = "batch by batch"


def statements(path: Path, names: Sequence[str]) -> str:
    """Return a script that learns some of them from a log."""
    edges = f"SELECT user, CAST(item AS STRING) AS item FROM parquet.`{path}` WHERE user IS NOT NULL"
    queries = {"pagerank": edges, "sequence": f"SELECT user, item, ts FROM parquet.`{path}` WHERE user IS NOT NULL"}
    return ";".join(
        f"TRAIN MODEL m{number} {how} AS {queries.get(how.split()[1], f'SELECT * FROM parquet.`{path}`')}"
        for number, how in enumerate(TRAININGS[name] for name in names)
    )


def learned(warehouse: Path, path: Path, names: Sequence[str]) -> list[pa.Table]:
    """Return what the models hold; of the package's the predictions."""
    found = []
    with xpsql.connect(warehouse, "duckdb", SilentReporter()) as session:
        for number, how in enumerate(names):
            rows = f"ML.PREDICT(MODEL m{number}, (SELECT * FROM parquet.`{path}`)) ORDER BY ts"
            weights = f"ML.WEIGHTS(MODEL m{number}) ORDER BY key"
            found.append(session.sql(f"SELECT * FROM {rows if how == 'by another package' else weights}").arrow())
    return found


@needs_spark_4
@needs_context
@pytest.mark.parametrize("names", [(FIRST,), pytest.param((*TRAININGS,)[1:], marks=lengthy)], ids=["first", "others"])
def test_a_server_gives_the_bits_that_a_session_of_this_process_gives(
    names: Sequence[str], server: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = write(log(600), tmp_path / "log.parquet", 150)
    script = tmp_path / "train.sql"
    script.write_text(statements(path, names))
    command = [sys.executable, "-m", "xpsql", "run", str(script), "--engine", "spark", "--remote", server]
    ran = subprocess.run(
        [*command, "--warehouse", str(tmp_path / "connect")], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    with xpsql.connect(tmp_path / "classic", spark, SilentReporter()) as session:
        session.sql(statements(path, names))
    for how, there, here in zip(
        names, learned(tmp_path / "connect", path, names), learned(tmp_path / "classic", path, names), strict=True
    ):
        assert there.num_rows > 0, how
        assert there.equals(here), how


@costly
@needs_spark_4
def test_the_engine_does_what_it_does_on_a_session_of_this_process(server: str) -> None:
    """The other tests of Spark run so in `make test-rest`."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "--tb=short", "tests/engines/test_conformance.py"]
    environment = {**os.environ, "XPSQL_TEST_REMOTE": server, "PYTEST_ADDOPTS": ""}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ran.returncode == 0, ran.stdout[-5000:]
    assert " passed" in ran.stdout


def test_a_server_that_nobody_started_is_refused_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(StatementError, match="No server of Spark Connect listens at"):
        xpsql.connect(tmp_path / "w", "spark", remote=f"sc://127.0.0.1:{port}")
    with pytest.raises(StatementError, match="leave either master or remote out"):
        xpsql.connect(tmp_path / "w", "spark", remote="sc://127.0.0.1:1", master="local[1]")
