"""A short version of what `make chaos` does for long: tasks, executors and drivers are killed at random moments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 400


def run(module: str, folder: Path, *options: str) -> str:
    """Run a module of this folder as a process of its own; return what it printed."""
    command = [sys.executable, "-m", f"tests.chaos.{module}", str(folder), *options]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def test_a_driver_that_is_killed_is_resumed_and_its_model_is_the_one_without_a_kill(tmp_path: Path) -> None:
    options = ["--sync", "bsp", "--times", "1", "--rows", "5000", "--passes", "10", "--pause", "5", "9"]
    assert "| as in the data |" in run("driver", tmp_path, "--master", "processes", *options)


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install a JDK, version 17 or newer")
def test_executors_that_are_killed_lose_nothing_and_nothing_counts_twice(tmp_path: Path) -> None:
    faults = ["--fault", "worker", "--fault", "executor of a shard", "--each", "1", "--times", "1", "--pause", "0", "2"]
    assert "| as in the data |" in run("spark", tmp_path, "--rows", "5000", "--passes", "30", *faults)
