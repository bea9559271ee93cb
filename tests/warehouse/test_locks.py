"""A lock is one process's at a time, goes with the process, and tells who holds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from xpsql.platform.errors import ModelError
from xpsql.warehouse.locks import Lock, busy, held
from xpsql.warehouse.models import Models

from .fill import train

HOLD = """
import sys
from pathlib import Path
from tests.warehouse.fill import MANIFEST
from xpsql.warehouse.models import Models
draft = Models(Path(sys.argv[1])).begin("ctr", MANIFEST, replace=True)
print("begun", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_free_again_after_its_release(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock", "trained")
    assert held(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        Lock(tmp_path / "lock", "trained")
    lock.release()
    lock.release()
    assert not held(tmp_path / "lock")
    Lock(tmp_path / "lock", "trained").release()


def test_a_lock_that_is_absent_is_not_held(tmp_path: Path) -> None:
    assert not held(tmp_path / "lock")


def test_a_lock_whose_holder_has_not_written_yet_is_just_busy(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert str(busy(tmp_path / "lock", "m")) == "Model m is being changed by another process. Wait until it ends."


def test_a_killed_training_gives_its_model_back_and_reads_as_interrupted(tmp_path: Path) -> None:
    models = Models(tmp_path)
    train(models)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert models.find("ctr", 2).manifest.status == "training"
        with pytest.raises(ModelError, match=f"is being trained by process {process.pid} since"):
            models.drop("ctr")
        process.kill()
    assert models.find("ctr", 2).manifest.status == "interrupted"
    assert models.version("ctr").number == 1
    models.drop("ctr")
