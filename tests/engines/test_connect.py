"""Spark Connect: the conformance suite of engines, and a training of each strategy, in a session without a SparkContext."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import xpsql
from tests.sparks import needs_spark_4
from xpsql.platform.errors import StatementError

pytest.importorskip("grpc", reason="Spark Connect needs the extra connect")

SERVER = """
import sys
from pyspark.sql import SparkSession
from tests.conftest import SETTINGS

builder = SparkSession.builder.master("local[3]")
plugin = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.connect.grpc.binding.port": sys.argv[1]}
for name, value in {**SETTINGS, **plugin, "spark.sql.warehouse.dir": sys.argv[2]}.items():
    builder = builder.config(name, value)
builder.getOrCreate()
print("up", flush=True)
sys.stdin.read()
"""
CHOSEN = "spark and (test_an_engine or xftrl or owlqn or xgboost)"
SECONDS = 900


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server, which is another process with a JVM."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    folder, environment = tmp_path_factory.mktemp("connect"), {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", SERVER, port, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield f"sc://127.0.0.1:{port}"
        process.communicate(timeout=60)


@needs_spark_4
def test_engine_and_trainings_do_what_they_do_on_a_session_of_this_process(server: str) -> None:
    files = ["tests/engines/test_conformance.py", "tests/algorithms/test_spark.py"]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "--tb=short", "-k", CHOSEN, *files]
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
