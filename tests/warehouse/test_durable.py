"""What is committed stays after a power cut: files, and the names of all folders on the way to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.warehouse.fill import train
from xpsql.warehouse.models import Models
from xpsql.warehouse.storage import Storage


def noted(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Return the files and folders that are synced from now on."""
    synced: set[Path] = set()
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return synced


def test_the_names_of_all_new_folders_are_on_the_disk_with_the_first_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = noted(monkeypatch)
    root = tmp_path / "new" / "warehouse"
    train(Models(root))
    assert {tmp_path, root.parent, root, root / "models", root / "models" / "ctr"} <= synced


def test_a_commit_syncs_the_names_that_a_kill_has_left_unsynced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "warehouse"
    (root / "models" / "ctr").mkdir(parents=True)  # by one that was killed before it had synced them
    synced = noted(monkeypatch)
    train(Models(root))
    assert {tmp_path, root, root / "models", root / "models" / "ctr"} <= synced


def test_the_names_of_all_new_folders_on_the_way_to_a_checkpoint_are_on_the_disk_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = noted(monkeypatch)
    Storage(str(tmp_path / "shared"), "m", "v1-training").replace("000000-000001/manifest.json", b"{}")
    shared = tmp_path / "shared"
    assert {tmp_path, shared, shared / "m", shared / "m" / "v1-training"} <= synced


def test_drafts_of_manifests_that_a_kill_left_are_swept_with_the_next_change(tmp_path: Path) -> None:
    models = Models(tmp_path)
    train(models)
    left = models.version("ctr").folder / ".manifest.json-0123"
    left.touch()
    models.drop_old("ctr", 1)
    assert not left.exists()
