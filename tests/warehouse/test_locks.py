"""A lock is one process's at a time, goes with the process, and tells who holds it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warehouse.fill import train
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.errors import ModelError
from xpsql.warehouse.locks import Lock, busy, held
from xpsql.warehouse.models import Models
from xpsql.warehouse.scratch import drafting, scratch

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


def test_a_lock_that_cannot_say_who_holds_it_is_held_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        with pytest.raises(ModelError, match="The disk is full: free space, then run the statement again"):
            Lock(tmp_path / "lock", "trained")
    Lock(tmp_path / "lock", "trained").release()


def test_a_group_can_change_what_one_of_its_users_wrote(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        train(Models(tmp_path))
        engine = DuckDBEngine(tmp_path)
        for kind in ("TABLE", "VIEW"):
            engine.execute(f"CREATE {kind} my_{kind} AS SELECT 1 AS a")
        engine.close()
        with scratch(tmp_path) as folder:
            (folder / "part").touch()
            written = [path for path in tmp_path.rglob("*") if not path.is_symlink()]
            assert {path.name for path in written} >= {"lock", "manifest.json", "my_table", "my_view.json", "part", ".locks"}
            assert [path for path in written if not path.stat().st_mode & stat.S_IWGRP] == []
    finally:
        os.umask(before)


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


def test_a_lock_whose_process_was_killed_before_it_made_its_draft_is_removed_by_the_next_and_one_that_is_held_stays(
    tmp_path: Path,
) -> None:
    (tmp_path / "left.lock").write_text("{}")
    lock = Lock(tmp_path / "held.lock", "written")
    with drafting(tmp_path) as folder:
        assert {path.name for path in tmp_path.iterdir()} == {"held.lock", folder.name, f"{folder.name}.lock"}
    lock.release()
    with drafting(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
