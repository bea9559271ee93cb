"""Temporary folders that every machine which shares the warehouse can reach."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .durable import clear, storing
from .locks import Lock, held, unshared

FOLDER = ".scratch"
LEFT_SECONDS = 7 * 24 * 3600


def sweep(left: Iterable[Path]) -> None:
    """Remove what killed processes left, once nobody has changed it for a week."""
    for old in left:
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - old.stat().st_mtime > LEFT_SECONDS:
                clear(old)


@contextmanager
def scratch(warehouse: Path, name: str | None = None) -> Iterator[Path]:
    """Yield an empty folder in a warehouse, which is removed when the block ends; leftovers of killed processes are removed
    after a week.

    Args:
        name: of the folder, which a lock gives to the caller alone: what an earlier one left there is removed at once.
    """
    root = warehouse / FOLDER
    folder = root / (name or uuid.uuid4().hex)
    with storing(folder):
        root.mkdir(parents=True, exist_ok=True)
        sweep(root.iterdir())
        clear(folder)
        folder.mkdir()
    try:
        yield folder
    finally:
        clear(folder)


@contextmanager
def drafting(drafts: Path) -> Iterator[Path]:
    """Yield a new folder among those of drafts, for files that a table will have; it is removed when the block ends.

    Raises:
        ModelError: the warehouse is not writable.
    """
    folder, lock = _locked(drafts)
    try:
        _sweep(drafts)
        with storing(folder):
            folder.mkdir()
        yield folder
    finally:
        clear(folder)
        clear(folder.with_suffix(".lock"))
        lock.release()


def _locked(drafts: Path) -> tuple[Path, Lock]:
    """Return the path of a new draft, and its lock."""
    while True:
        folder = drafts / uuid.uuid4().hex
        try:
            return folder, Lock(folder.with_suffix(".lock"), "written")
        except BlockingIOError:
            continue  # another process took it for left, before it was locked


def _sweep(drafts: Path) -> None:
    """Remove the drafts of processes that were killed, and locks without a draft."""
    for path in drafts.iterdir():
        lock = path.with_suffix(".lock")
        if path == lock and not path.with_suffix("").exists():
            with unshared(lock) as free:
                if free:
                    clear(lock)
        elif path != lock and not held(lock):
            clear(path)
            clear(lock)
