"""What the warehouse keeps under a name beside models: a definition, and versions that appear atomically.

    <root>/<kind>/<name>/definition.json      what the statement that made it said
    <root>/<kind>/<name>/lock                 held by who refreshes it
    <root>/<kind>/<name>/v<N>/manifest.json   what the version has

A version is written as a draft beside the others and gets its name by one rename; whenever a refresh is killed, the version
before stays.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...warehouse.durable import clear, make_folder, replace_text, storing, sync, sync_tree
from ...warehouse.folders import version_folders
from ...warehouse.locks import Lock
from ...warehouse.manifest import read_json
from ...warehouse.names import folder_name, model_name
from ..errors import ModelError, suggestion

FORMAT = 1
DEFINITION, MANIFEST = "definition.json", "manifest.json"
PROBE_SECONDS = 0.2
"""Whoever looks whether something is refreshed holds its lock for a moment, which refuses nobody."""
KEPT_VERSIONS = 3
"""Versions whose files stay, for queries and services that began with one of them."""


class KeptVersions:
    """All that a warehouse keeps of one kind.

    Args:
        kind: the folder of all of them.
        words: the kind in statements: "HISTORY".
        noun: what one is called.
        remedy: what to do about one whose name is taken, with {name} in the place of it.
    """

    def __init__(self, warehouse: Path, kind: str, words: str, noun: str, remedy: str) -> None:
        self.warehouse, self.words, self.noun, self.remedy = warehouse, words, noun, remedy
        self._root = warehouse / kind

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(model_name(path.parent.name) for path in self._root.glob(f"[!.]*/{DEFINITION}"))

    def defined(self, name: str) -> dict[str, Any]:
        """Return the fields of a definition.

        Raises:
            ModelError: there is none, or its file is damaged.
        """
        try:
            return dict(read_json(self._folder(name) / DEFINITION))
        except FileNotFoundError:
            names = self.names()
            there = f" There are {', '.join(names)}." if names else f" CREATE {self.words} makes one."
            raise ModelError(f"There is no {self.noun} {name}.{suggestion(name, names) or there}") from None

    def last(self, name: str) -> tuple[Path, int, dict[str, Any]] | None:
        """Return the folder, number and manifest of the newest version; None where none has been made."""
        for number, folder in reversed(version_folders(self._folder(name))):
            try:
                return folder, number, dict(read_json(folder / MANIFEST))
            except FileNotFoundError:  # it goes
                continue
        return None

    def define(self, name: str, fields: Mapping[str, Any], replace: bool = False) -> None:
        """Write a definition.

        Args:
            replace: also in the place of another of its name.

        Raises:
            ModelError: there is one of its name.
        """
        folder = self._folder(name)
        if (folder / DEFINITION).exists() and not replace:
            raise ModelError(f"The {self.noun} {name} exists. {self.remedy.format(name=name)}")
        with storing(folder):
            make_folder(folder)
        replace_text(folder / DEFINITION, json.dumps({"format": FORMAT, **fields}, indent=1))

    def drop(self, name: str) -> None:
        """Remove one: out of sight in one step, then from the disk."""
        if not (self._folder(name) / DEFINITION).exists():
            self.defined(name)  # raises an error that lists them
        with self.changing(name):
            gone = self._root / f".trash-{uuid.uuid4().hex}"
            with storing(self._root):
                self._folder(name).rename(gone)
                sync(self._root)
            clear(gone)

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Lock one against other changes until the block ends.

        Raises:
            ModelError: somebody does.
        """
        end = time.monotonic() + PROBE_SECONDS
        while True:
            try:
                lock = Lock(self._folder(name) / "lock", "refreshed")
                break
            except BlockingIOError as error:
                if time.monotonic() > end:
                    message = f"{self.noun.capitalize()} {name} is being refreshed by another process. Wait until it ends."
                    raise ModelError(message) from error
                time.sleep(PROBE_SECONDS / 20)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """Yield an empty folder for the next version, which is removed unless it is published; under `changing`."""
        folder = self._folder(name)
        for left in folder.glob(".draft-*"):  # of refreshes that were killed
            clear(left)
        draft = folder / f".draft-{uuid.uuid4().hex}"
        with storing(draft):
            draft.mkdir()
        try:
            yield draft
        finally:
            clear(draft)

    def appear(self, name: str, draft: Path, fields: Mapping[str, Any]) -> tuple[Path, int, str]:
        """Make a draft the newest version, in one step that survives a power cut; old versions are removed.

        Returns:
            Its folder, its number and its time.
        """
        before = self.last(name)
        number = 1 if before is None else before[1] + 1
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        folder = draft.with_name(f"v{number}")
        with storing(draft):
            (draft / MANIFEST).write_text(json.dumps({"format": FORMAT, **fields, "created": created}), encoding="utf-8")
            sync_tree(draft)
            draft.rename(folder)
            sync(folder.parent)
        pinned = self.pinned(name)
        for old_number, old in version_folders(folder.parent)[:-KEPT_VERSIONS]:
            if old_number not in pinned:
                clear(old)
        return folder, number, created

    def pinned(self, name: str) -> Collection[int]:
        """Return the numbers of old versions that somebody still reads."""
        return ()

    def damaged(self, path: Path, name: str) -> ModelError:
        """Return the error of a file with other fields than it is written with."""
        return ModelError(
            f"{path} is damaged: it has other fields than it is written with. Restore it from a backup, or DROP {self.words} "
            f"{name}."
        )

    def _folder(self, name: str) -> Path:
        return self._root / folder_name(name)


def is_time(text: Any) -> bool:
    """Return whether a value of a manifest is a time."""
    try:
        return isinstance(text, str) and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def are_sums(values: Any) -> bool:
    """Return whether a value of a manifest is the checksums of files."""
    return isinstance(values, dict) and all(isinstance(text, str) for text in values.values())
