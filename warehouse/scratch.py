"""Temporary folders that every machine which shares the warehouse can reach."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .durable import clear, storing

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
