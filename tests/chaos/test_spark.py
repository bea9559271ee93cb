"""A short version of what `make chaos` does for long: tasks, executors and drivers are killed at random moments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import costly

SECONDS = 600


def run(module: str, folder: Path, *options: str) -> str:
    """Run a module of this folder as a process of its own; return what it printed."""
    command = [sys.executable, "-m", f"tests.chaos.{module}", str(folder), *options]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def test_a_driver_that_is_killed_is_resumed_and_its_model_is_the_one_without_a_kill(tmp_path: Path) -> None:
    options = ["--sync", "bsp", "--times", "1", "--rows", "5000", "--passes", "40"]
    options += ["--checkpoint-seconds", "0.2", "--pause", "0", "2"]
    assert "| as in the data" in run("driver", tmp_path, "--master", "processes", *options)


def test_tasks_that_read_a_topic_and_are_killed_lose_no_message_and_count_none_twice(tmp_path: Path) -> None:
    options = ["--kafka", "--master", "processes", "--fault", "worker", "--fault", "shard", "--each", "1", "--times", "1"]
    options += ["--rows", "4000", "--passes", "20", "--checkpoint-seconds", "0.2", "--pause", "0", "1"]
    assert "| as in the data" in run("spark", tmp_path, *options)


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install a JDK, version 17 or newer")
@costly
def test_executors_of_shards_that_run_networks_are_killed_and_the_model_is_the_one_without_a_kill(tmp_path: Path) -> None:
    options = [
        "--networks",
        "--sync",
        "bsp",
        "--fault",
        "executor of a shard",
        "--each",
        "2",
        "--times",
        "2",
        "--pause",
        "0",
        "2",
    ]
    options += ["--rows", "4000", "--passes", "30", "--checkpoint-seconds", "0.5"]
    assert "| as in the data, rows equal" in run("spark", tmp_path, *options)


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install a JDK, version 17 or newer")
def test_executors_that_are_killed_lose_nothing_and_nothing_counts_twice(tmp_path: Path) -> None:
    faults = ["--fault", "worker", "--fault", "executor of a shard", "--each", "1", "--times", "1", "--pause", "0", "2"]
    assert "| as in the data" in run("spark", tmp_path, "--rows", "5000", "--passes", "30", *faults)


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install a JDK, version 17 or newer")
@pytest.mark.skipif(sys.platform != "linux", reason="Spark speculates on other hosts; elsewhere this machine has one address")
@pytest.mark.skipif("XPSQL_CHAOS" not in os.environ, reason="make chaos runs it: Spark decides when it speculates")
def test_second_attempts_of_tasks_that_live_wait_and_nothing_counts_twice(tmp_path: Path) -> None:
    found = json.loads(run("speculation", tmp_path).splitlines()[-1])
    assert found["mistakes"] == []
    assert found["seen"] == [
        "second attempts of all tasks wait",
        "a slow worker keeps its place",
        "a stopped worker is replaced by its second attempt",
    ]
    assert found["ended"]
    assert sum("Recovered after" in note for note in found["notes"]) == 1
