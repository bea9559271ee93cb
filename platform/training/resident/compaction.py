"""Compaction in the background: a delta version's changes become all rows, where reading it takes long."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ....warehouse.chains.compaction import OLDER_SHARE, is_due, rows_after, write_whole
from ....warehouse.durable import clear

if TYPE_CHECKING:
    from ....warehouse.models import Models
    from ....warehouse.version import Version

NICENESS = 10


class Compactor:
    """Compacts one version after the other, in a thread of low priority; a context manager.

    Args:
        models, name: the model, which the caller alone changes.
        folder: where rows are written until a version has them, in the same filesystem.

    Attributes:
        room: so many changed rows, as a share of all, may follow the last version that has all rows.
        making: the version being compacted, or compacted and not adopted yet.
    """

    def __init__(self, models: Models, name: str, folder: Path) -> None:
        self.room = OLDER_SHARE
        self._models, self._name, self._folder = models, name, folder
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="xpsql-compact")
        self._ended = threading.Event()
        self.making: Future[bool] | None = None
        self._of = 0

    def look(self, version: Version) -> None:
        """Adopt what is compacted, and begin with a version that was just committed where that is due.

        Raises:
            ModelError: rows could not be written or read.
        """
        if self.making is not None and self.making.done():
            done, self.making = self.making.result(), None
            if done:
                self._models.keep_whole(self._name, self._of, version, self._place)
        links = version.chain()
        self.room = OLDER_SHARE - rows_after(links)
        if self.making is None and is_due(links):
            self._of = version.number
            self.making = self._pool.submit(self._make, version, self._place)

    @property
    def _place(self) -> Path:
        return self._folder / f"whole-{self._of}"

    def _make(self, version: Version, folder: Path) -> bool:
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        with self._models.reading(self._name, version.number):
            return write_whole(version, folder, self._ended.is_set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Abandon what is being made."""
        self._ended.set()
        self._pool.shutdown()
        if self.making is not None:
            clear(self._place)
