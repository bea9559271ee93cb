"""Histories of the warehouse: each user's last events, in versions that appear atomically.

    <root>/histories/<name>/definition.json      what CREATE HISTORY said
    <root>/histories/<name>/lock                 held by who refreshes it
    <root>/histories/<name>/pins/, deleted.json  see pins.py
    <root>/histories/<name>/stop                 asks the process that publishes it repeatedly to stop
    <root>/histories/<name>/v<N>/manifest.json   how many events it has, and the positions of streams up to which it has them
    <root>/histories/<name>/v<N>/events/         all events; of a stream as links to the files of versions before
    <root>/histories/<name>/v<N>/kept/           the last events of each user
    <root>/histories/<name>/v<N>/image/          the same, as the service maps them
    <root>/histories/<name>/v<N>/all/            all events as arrays that are mapped, see event_image.py

A version is written as a draft beside the others and gets its name by one rename, with the position that its events lead to. So
an event is in a history once, whenever a refresh is killed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...warehouse.durable import clear, replace_text
from ...warehouse.entries import HistoryEntry, record
from ...warehouse.folders import version_folders
from ...warehouse.manifest import read_json
from ..errors import ModelError
from ..typed import has_types
from .event_files import sums_in
from .image import sums_of
from .kept import DEFINITION, KEPT_VERSIONS, MANIFEST, KeptVersions, are_sums, is_time
from .pins import Deletion, deleted_keys, deletions, keep_deletion, leave_out, pin, pins

STOP, IMAGE, ALL = "stop", "image", "all"
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class HistoryDefinition:
    """What CREATE HISTORY said.

    Attributes:
        query: of the events, as written.
        partition, order: its columns that say whose an event is, and when.
        values: its other columns.
        keep: how many events of each are kept.
        within: how old an event may be, as written: "INTERVAL 30 DAYS"; None: any age.
    """

    name: str
    statement: str
    query: str
    partition: str
    order: str
    values: tuple[str, ...]
    keep: int
    within: str | None


@dataclass(frozen=True)
class HistoryVersion:
    """A complete version.

    Attributes:
        rows: how many events it has of all times; kept: of these the last ones of each of `users`.
        position: of streams, by name.
        sums: the checksums of its image's files; None of one that was written without.
    """

    folder: Path
    number: int
    rows: int
    kept: int
    users: int
    position: Mapping[str, Mapping[str, Any]]
    created: str
    sums: Mapping[str, str] | None = None

    @property
    def events(self) -> Path:
        return self.folder / "events"


class StoredHistories(KeptVersions):
    """The histories of a warehouse."""

    def __init__(self, warehouse: Path) -> None:
        super().__init__(warehouse, "histories", "HISTORY", "history", "DROP HISTORY {name} first.")

    def definition(self, name: str) -> HistoryDefinition:
        """Return what a history is.

        Raises:
            ModelError: there is none, or its file is damaged.
        """
        values = self.defined(name)
        texts = ("name", "statement", "query", "partition", "order")
        if not (
            all(isinstance(values.get(name), str) for name in texts)
            and has_types(values.get("values"), tuple[str, ...])
            and has_types(values.get("keep"), int)
            and has_types(values.get("within", 0), str | None)
        ):
            raise self.damaged(self._folder(name) / DEFINITION, name)
        return record(HistoryDefinition, values)

    def newest(self, name: str) -> HistoryVersion | None:
        """Return the newest version; None where none has been made.

        Raises:
            ModelError: its manifest is damaged.
        """
        for number, folder in reversed(version_folders(self._folder(name))):
            if (found := self._version(name, number, folder)) is not None:
                return found
        return None

    def _version(self, name: str, number: int, folder: Path) -> HistoryVersion | None:
        """Return a version; None where it is gone."""
        try:
            values = read_json(folder / MANIFEST)
        except FileNotFoundError:  # it goes
            return None
        counts = (values.get(count) for count in ("rows", "kept", "users"))
        position = values.get("position")
        if not (
            all(has_types(count, int) for count in counts)
            and is_time(values.get("created"))
            and (values.get("sums") is None or are_sums(values["sums"]))
            and isinstance(position, dict)
            and all(isinstance(of_stream, dict) for of_stream in position.values())
        ):
            raise self.damaged(folder / MANIFEST, name)
        return record(HistoryVersion, {**values, "folder": folder, "number": number})

    def changed(self, name: str) -> int:
        """Return when the folder of a history was changed, in nanoseconds; 0 where there is none."""
        try:
            return self._folder(name).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def current(self, name: str) -> HistoryVersion:
        """Return the newest version.

        Raises:
            ModelError: there is none, or its manifest is damaged.
        """
        version = self.newest(name)
        if version is None:
            self.definition(name)  # says that there is no such history
            raise ModelError(f"The history {name} has no version. REFRESH HISTORY {name} makes one.")
        return version

    def version(self, entry: HistoryEntry) -> HistoryVersion:
        """Return the version that a training read.

        Raises:
            ModelError: it is gone: says whether since somebody's events were deleted.
        """
        self.definition(entry.name)
        folder = self._folder(entry.name) / f"v{entry.version}"
        found = self._version(entry.name, entry.version, folder)
        if found is not None and {**(found.sums or {})} == {**entry.sums}:
            return found
        said = f"Version {entry.version} of the history {entry.name}, which the training read, is gone"
        deleted = [one.at for one in deletions(self._folder(entry.name)) if one.version > entry.version]
        if deleted:
            raise ModelError(
                f"{said}: DELETE FROM HISTORY {entry.name} removed a user's events at {deleted[0]}, and every version that had "
                "them. TRAIN or CONTINUE reads the newest version."
            )
        raise ModelError(
            f"{said}: the newest {KEPT_VERSIONS} versions are kept, and those of trainings that are under way. TRAIN or "
            "CONTINUE reads the newest version."
        )

    def pin(self, entry: HistoryEntry, training: Path) -> None:
        """Keep a version until a training, of a model's version in a folder, ends.

        Raises:
            ModelError: it is gone; see version.
        """
        pin(self._folder(entry.name), entry.version, training)
        self.version(entry)

    def deletions(self, name: str) -> list[Deletion]:
        """Return whose events were deleted."""
        return deletions(self._folder(name))

    def keep_deletion(self, name: str, deletion: Deletion) -> None:
        """Remember whose events were deleted; under `changing`."""
        keep_deletion(self._folder(name), deletion)

    def leave_out(self, definition: HistoryDefinition, files: Sequence[Path]) -> None:
        """Write files of events again without those of users who were deleted."""
        leave_out(files, definition.partition, deleted_keys(self._folder(definition.name)))

    def keep_only(self, name: str, number: int) -> None:
        """Remove all versions but one, also those that trainings read."""
        for other, folder in version_folders(self._folder(name)):
            if other != number:
                clear(folder)

    def create(self, definition: HistoryDefinition) -> None:
        """Write the definition of a new history.

        Raises:
            ModelError: there is one of its name.
        """
        self.define(definition.name, asdict(definition))

    def published(self, name: str) -> bool:
        """Return whether another process changes it now."""
        try:
            with self.changing(name):
                return False
        except ModelError:
            return True

    def ask_to_stop(self, name: str) -> None:
        """Ask the process that publishes a history repeatedly to stop."""
        replace_text(self._folder(name) / STOP, "")

    def waited(self, name: str, seconds: float) -> bool:
        """Wait until a time is over, or a stop is requested; return whether one is. Under `changing`."""
        end = time.monotonic() + seconds
        while not (asked := (self._folder(name) / STOP).exists()) and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, POLL_SECONDS))
        (self._folder(name) / STOP).unlink(missing_ok=True)
        return asked

    def publish(
        self, name: str, draft: Path, rows: int, kept: int, users: int, position: Mapping[str, Mapping[str, Any]]
    ) -> HistoryVersion:
        """Make a draft the newest version, in one step that survives a power cut; old versions are removed."""
        sums = sums_of(draft / IMAGE) | {f"{ALL}/{name}": text for name, text in sums_in(draft / ALL).items()}
        values = {"rows": rows, "kept": kept, "users": users, "position": position, "sums": sums}
        folder, number, created = self.appear(name, draft, values)
        return HistoryVersion(folder, number, rows, kept, users, position, created, sums)

    def pinned(self, name: str) -> Collection[int]:
        """See KeptVersions: trainings read them."""
        return pins(self._folder(name))
