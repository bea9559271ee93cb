"""The models that a service serves: which version of each, and how a new one takes the place of the last."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import XpsqlError
from ..images.build_process import weights_apart
from ..images.image import ImageWeights, MappedRows
from ..images.overlay import weights_of
from ..system import loading
from ..training.graphs.versions import has_vertices
from .loaded import Loaded
from .refusal import RequestError

if TYPE_CHECKING:
    from ...warehouse.catalog import Catalog
    from ...warehouse.version import Version

POLL_SECONDS = 1.0
PAUSE_SECONDS = 0.001
"""After each piece of the follower's work, of a millisecond at most, so that on one core requests wait for no more of it."""
STOP_SECONDS = 30.0

BLOCKS = 64
"""MiB of images that are verified against their checksums at each poll of the warehouse."""
RECENT = 256
"""How many of a model's last requests a new version answers to warm up, before it replaces the old one."""

Report = Callable[[str], None]
Replay = Callable[[Loaded], object]
"""Replays a request on a version; raises RequestError where it refuses it."""


class Served:
    """Models by name, each a version in memory; a thread follows the warehouse.

    A new version is loaded, its programs are compiled and it is warmed up with the last requests, while the old one still
    serves; then one reference is swapped. A request keeps the version that it began with, and the follower keeps the old one a
    second longer, so that no request frees its memory.

    Args:
        models: of the warehouse.
        names: of the models.
        number: the version of all of them; None for the one that is served: promoted, or the newest that is ready.
        report: called with each event, a line of text.
        half: rows are of 16 bits a float.
        apart: rows of later versions are made ready by a process of its own; see weights_apart.
        vouched: is asked of each version before it is loaded, and raises a ModelError for one that must not be served.
        level: of the intervals of predictions; None: they have none.

    Raises:
        ModelError, StatementError: a version is absent or cannot be loaded.
    """

    def __init__(
        self,
        models: Catalog,
        names: Sequence[str],
        number: int | None,
        report: Report,
        half: bool = False,
        apart: bool = False,
        vouched: Callable[[Version], object] = bool,
        level: float | None = None,
    ) -> None:
        self._vouched, self._level = vouched, level
        self._models, self._number, self._report, self._half, self._apart = models, number, report, half, apart
        self._stopping, self._old = threading.Event(), list[Loaded]()
        self._looked: dict[Loaded, int] = {}
        self._loaded: dict[str, Loaded] = {}
        self._failed: dict[str, str] = {}
        self.failures: dict[str, int] = {}
        self._recent: dict[str, deque[Replay]] = {}
        for name in names:
            loaded = self._load(name, lambda version: weights_of(version, self._halved(version), (), report))
            self._loaded[loaded.model.lower()] = loaded
            self.failures[loaded.model.lower()] = 0
            self._recent[loaded.model.lower()] = deque(maxlen=RECENT)
        self._thread = threading.Thread(target=self._follow, name="xpsql serve: warehouse", daemon=True)

    def start(self) -> None:
        """Follow the warehouse from now on."""
        for loaded in self.all():
            self._remark(loaded)
        self._thread.start()

    def _remark(self, loaded: Loaded) -> None:
        """Report a version whose requests go by way of a table."""
        if loaded.by_table is not None:
            self._report(f"{loaded.model} v{loaded.number} is scored by way of a table, {loaded.by_table}")

    def stop(self) -> None:
        """Follow it no more."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def all(self) -> list[Loaded]:
        """Return what is served now."""
        return list(self._loaded.values())

    def find(self, name: str, number: str | None) -> Loaded:
        """Return a model's version that is served.

        Args:
            number: the version that a request names, as its path has it.

        Raises:
            RequestError: another one is served, or none.
        """
        loaded = self._loaded.get(name.lower())
        if loaded is None:
            raise RequestError(404, f"There is no model {name} here. Served: {', '.join(one.model for one in self.all())}.")
        if number is not None and number != str(loaded.number):
            raise RequestError(404, f"Version {number} of model {loaded.model} is not served; version {loaded.number} is.")
        return loaded

    def failing(self, loaded: Loaded) -> bool:
        """Return whether another version should be served in a model's place, and cannot be loaded."""
        return loaded.model.lower() in self._failed

    def remember(self, loaded: Loaded, replay: Replay) -> None:
        """Keep a request that was answered, for the next version of its model."""
        self._recent[loaded.model.lower()].append(replay)

    def refresh(self) -> None:
        """Poll once for versions that replace the ones in memory, and swap them in."""
        self._old.clear()
        for key, loaded in list(self._loaded.items()):
            try:
                damaged = self._damage(loaded)
                if damaged is None and self._is_current(loaded):
                    self._failed.pop(key, None)
                    continue
                bases = () if damaged else loaded.weights.bases
                fresh = self._load(loaded.model, partial(self._weights, bases))
                self._read(fresh)
                self._warm(key, fresh)
                self._loaded[key] = fresh
                self._old.append(loaded)
            except (XpsqlError, OSError) as error:
                self._note(key, loaded, str(error))
                continue
            self._failed.pop(key, None)
            self._looked.pop(loaded, None)
            if damaged is None:
                self._report(f"Serving {fresh.model} v{fresh.number} instead of v{loaded.number}.")
                self._remark(fresh)

    def _is_current(self, loaded: Loaded) -> bool:
        """Return whether a version is still the served one; also true where no version is served, or this one is pinned."""
        if self._number is not None or (number := self._models.served(loaded.model)) is None:
            return True
        return number == loaded.number and self._models.find(loaded.model, number).manifest.training == loaded.training

    def _damage(self, loaded: Loaded) -> Path | None:
        """Verify some blocks of a version's images against their checksums; return a damaged image, which is removed."""
        first = self._looked.get(loaded, 0)
        self._looked[loaded] = first + BLOCKS if first + BLOCKS < loaded.weights.blocks else 0
        for block in range(first, min(first + BLOCKS, loaded.weights.blocks)):
            if (path := loaded.weights.damage(range(block, block + 1))) is not None:
                self._report(f"The image {path} is damaged and is made again.")
                with suppress(OSError):
                    path.unlink()
                return path
            self._stopping.wait(PAUSE_SECONDS)
        return None

    def _load(self, name: str, weights: Callable[[Version], ImageWeights]) -> Loaded:
        with self._models.reading(name, self._number) as version, loading(f"The model {name}"):
            self._vouched(version)
            return Loaded(version, weights(version), self._level)

    def _weights(self, bases: Sequence[MappedRows], version: Version) -> ImageWeights:
        if self._apart:
            return weights_apart(version, self._halved(version), bases, self._report, self._stopping)
        return weights_of(version, self._halved(version), bases, self._report)

    def _halved(self, version: Version) -> bool:
        """Return whether rows are of 16 bits a float: values of vertices have to be exact."""
        return self._half and not has_vertices(version.manifest)

    def _read(self, fresh: Loaded) -> None:
        """Bring the images of a version into memory."""
        for pages in fresh.weights.pages():
            pages.max()
            if self._stopping.wait(PAUSE_SECONDS):
                return

    def _warm(self, key: str, fresh: Loaded) -> None:
        """Warm up a version with the last requests, so that the pages and programs that they need are in memory."""
        for replay in self._recent[key].copy():
            if self._stopping.is_set():
                return
            with suppress(RequestError):  # it may have other columns
                replay(fresh)

    def _note(self, key: str, loaded: Loaded, problem: str) -> None:
        """Count a version that could not be loaded, and report it once."""
        if self._stopping.is_set():
            return
        self.failures[key] += 1
        if self._failed.get(key) != problem:
            self._failed[key] = problem
            self._report(f"Still serving {loaded.model} v{loaded.number}: {problem}")

    def _follow(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            try:
                self.refresh()
            except Exception as error:  # a running service reports it, and goes on with what it has
                for key, loaded in self._loaded.items():
                    self._note(key, loaded, f"{type(error).__name__}: {error}")
