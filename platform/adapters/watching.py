"""Statements that change a model, watched for adapters: what begins, each version that is there, and how it ends.

Adapters run in a thread of their own, so that a service that is slow or gone delays no training. Versions are found in the
warehouse, so that all engines, resident trainings and RESUME are alike.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..errors import XpsqlError, brief
from ..provenance.changing import changes
from ..quoting import masked
from ..registry import Registry

if TYPE_CHECKING:
    from ...warehouse.catalog import Catalog
    from ...warehouse.version import Version
    from ..engines.base import Engine

ON = ("1", "true", "yes", "on")
POLL_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
"""How long a statement that has ended waits for its adapters."""
ENDED = ("ready", "held")


class WatchedRun(NamedTuple):
    """A statement that changes a model.

    Attributes:
        statement: without secrets.
        engine: gives the session's, which nobody else uses once the statement has ended.
    """

    warehouse: Path
    model: str
    statement: str
    began: datetime
    engine: Callable[[], Engine]


class Adapter(Protocol):
    """What hears of runs, by one thread; what it raises becomes a note, and it hears no more of that run."""

    def started(self, run: WatchedRun) -> None:
        """Hear that a statement begins."""

    def committed(self, run: WatchedRun, version: Version) -> None:
        """Hear of a version that is ready or held."""

    def promoted(self, run: WatchedRun, served: int | None) -> None:
        """Hear that another version is served; None: none is."""

    def ended(self, run: WatchedRun, versions: int, error: str | None) -> None:
        """Hear that a statement has ended, with so many versions; `error`: why it failed."""


class AdapterKind(NamedTuple):
    """An adapter that the environment variable XPSQL_<NAME> = 1 turns on."""

    name: str
    make: Callable[[], Adapter]


ADAPTERS: Registry[AdapterKind] = Registry(__package__, {"MLFLOW": "mlflow.MLFLOW", "OPENLINEAGE": "openlineage.OPENLINEAGE"})


def asked() -> tuple[str, ...]:
    """Return the names of adapters that the environment asks for."""
    return tuple(name for name in ADAPTERS.names if os.environ.get(f"XPSQL_{name}", "").lower() in ON)


def told(
    models: Catalog, text: str, model: str | None, engine: Callable[[], Engine], note: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Return what tells adapters of a statement that changes a model, if the environment asks for some.

    Args:
        note: is told of adapters that fail or are too slow: the statement has run.
    """
    if model is None or not asked() or not changes(text):
        return nullcontext()
    return watched(models, WatchedRun(models.warehouse, model, masked(text), datetime.now(UTC), engine), note)


@contextmanager
def watched(models: Catalog, run: WatchedRun, note: Callable[[str], None]) -> Iterator[None]:
    """Tell adapters of a run that the block is; see told."""
    error, over = list[str](), threading.Event()
    watcher = Watcher(models, run, note)
    thread = threading.Thread(target=watcher.watch, args=(over, error), name="xpsql-adapters", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as raised:
        error.append(masked(f"{type(raised).__name__}: {raised}"))
        raise
    finally:
        over.set()
        thread.join(PATIENCE_SECONDS)
        if thread.is_alive():
            names = ", ".join(watcher.listening)
            note(f"{names} did not answer within {PATIENCE_SECONDS:g} seconds, and may lack what came of this statement.")


class Watcher:
    """Finds what a statement makes, and tells adapters.

    Attributes:
        listening: adapters by name, those that have failed no more.
    """

    def __init__(self, models: Catalog, run: WatchedRun, note: Callable[[str], None]) -> None:
        self._models, self._run, self._note = models, run, note
        self._known, self._served = {one.number for one in self._ended()}, self._now_served()
        self.listening = dict.fromkeys(asked(), None)
        self._adapters = dict[str, Adapter]()

    def _ended(self) -> list[Version]:
        try:
            present = self._models.present(self._run.model)
        except (XpsqlError, OSError):  # its folder is damaged, which the statement says
            return []
        return [one for one in present if one.manifest.status in ENDED]

    def _now_served(self) -> int | None:
        return next((one.number for one in self._ended() if one.served), None)

    def watch(self, over: threading.Event, error: list[str]) -> None:
        """Tell all that happens until a statement is over, and how it ended."""
        for name in tuple(self.listening):
            self._heard(name, partial(self._begin, name))
        made = 0
        while not over.wait(POLL_SECONDS):
            made += self._found()
        made += self._found()
        served = self._now_served()
        for name in tuple(self.listening):
            adapter = self._adapters[name]
            if served != self._served:
                self._heard(name, partial(adapter.promoted, self._run, served))
            if name in self.listening:
                self._heard(name, partial(adapter.ended, self._run, made, error[0] if error else None))

    def _begin(self, name: str) -> None:
        kind = ADAPTERS.find(name)
        assert kind is not None
        self._adapters[name] = kind.make()
        self._adapters[name].started(self._run)

    def _found(self) -> int:
        new = [one for one in self._ended() if one.number not in self._known]
        for version in new:
            self._known.add(version.number)
            for name in tuple(self.listening):
                self._heard(name, partial(self._adapters[name].committed, self._run, version))
        return len(new)

    def _heard(self, name: str, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as problem:
            self.listening.pop(name, None)
            self._note(f"{name.capitalize()} was not told of this statement: {type(problem).__name__}: {brief(str(problem))}")
