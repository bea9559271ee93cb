"""Histories of the warehouse: each user's last events, in versions that appear atomically.

    <root>/histories/<name>/definition.json      what CREATE HISTORY said
    <root>/histories/<name>/lock                 held by who refreshes it
    <root>/histories/<name>/stop                 asks the process that publishes it repeatedly to stop
    <root>/histories/<name>/v<N>/manifest.json   how many events it has, and the positions of streams up to which it has them
    <root>/histories/<name>/v<N>/events/         all events; of a stream as links to the files of versions before
    <root>/histories/<name>/v<N>/kept/           the last events of each user
    <root>/histories/<name>/v<N>/image/          the same, as the service maps them

A version is written as a draft beside the others and gets its name by one rename, with the position that its events lead to. So
an event is in a history once, whenever a refresh is killed.
"""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ...warehouse.durable import clear, make_folder, replace_text, storing, sync, sync_tree
from ...warehouse.entries import record
from ...warehouse.folders import version_folders
from ...warehouse.locks import Lock
from ...warehouse.manifest import read_json
from ...warehouse.names import folder_name, model_name
from ..errors import ModelError, suggestion
from ..typed import has_types
from .image import sums_of

FORMAT = 1
DEFINITION, MANIFEST, STOP, IMAGE = "definition.json", "manifest.json", "stop", "image"
POLL_SECONDS = 0.1
PROBE_SECONDS = 0.2
"""Whoever looks whether a history is published holds its lock for a moment, which refuses nobody."""
FILES_OF_A_SIZE = 8
"""Compaction: so many files of events of about the same size are merged: a history has a few files, however often it is
refreshed."""
KEPT_VERSIONS = 3
"""Versions whose files stay, for queries and services that began with one of them."""


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


class StoredHistories:
    """The histories of a warehouse."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self._root = warehouse / "histories"

    def names(self) -> list[str]:
        """Return the names of all histories, sorted."""
        return sorted(model_name(path.parent.name) for path in self._root.glob(f"[!.]*/{DEFINITION}"))

    def definition(self, name: str) -> HistoryDefinition:
        """Return what a history is.

        Raises:
            ModelError: there is none, or its file is damaged.
        """
        try:
            values = read_json(self._folder(name) / DEFINITION)
        except FileNotFoundError:
            names = self.names()
            there = f" There are {', '.join(names)}." if names else " CREATE HISTORY makes one."
            raise ModelError(f"There is no history {name}.{suggestion(name, names) or there}") from None
        texts = ("name", "statement", "query", "partition", "order")
        if not (
            all(isinstance(values.get(name), str) for name in texts)
            and has_types(values.get("values"), tuple[str, ...])
            and has_types(values.get("keep"), int)
            and has_types(values.get("within", 0), str | None)
        ):
            raise damaged(self._folder(name) / DEFINITION, name)
        return record(HistoryDefinition, values)

    def newest(self, name: str) -> HistoryVersion | None:
        """Return the newest version; None where none has been made.

        Raises:
            ModelError: its manifest is damaged.
        """
        for number, folder in reversed(version_folders(self._folder(name))):
            try:
                values = read_json(folder / MANIFEST)
            except FileNotFoundError:  # it goes
                continue
            counts = (values.get(count) for count in ("rows", "kept", "users"))
            texts, position = values.get("sums"), values.get("position")
            if not (
                all(has_types(count, int) for count in counts)
                and is_time(values.get("created"))
                and (texts is None or (isinstance(texts, dict) and all(isinstance(text, str) for text in texts.values())))
                and isinstance(position, dict)
                and all(isinstance(of_stream, dict) for of_stream in position.values())
            ):
                raise damaged(folder / MANIFEST, name)
            return record(HistoryVersion, {**values, "folder": folder, "number": number})
        return None

    def create(self, definition: HistoryDefinition) -> None:
        """Write the definition of a new history.

        Raises:
            ModelError: there is one of its name.
        """
        folder = self._folder(definition.name)
        if (folder / DEFINITION).exists():
            raise ModelError(f"The history {definition.name} exists. DROP HISTORY {definition.name} first.")
        with storing(folder):
            make_folder(folder)
        replace_text(folder / DEFINITION, json.dumps({"format": FORMAT, **asdict(definition)}, indent=1))

    def drop(self, name: str) -> None:
        """Remove a history: out of sight in one step, then from the disk."""
        if not (self._folder(name) / DEFINITION).exists():
            self.definition(name)  # raises an error that lists them
        with self.changing(name):
            gone = self._root / f".trash-{uuid.uuid4().hex}"
            with storing(self._root):
                self._folder(name).rename(gone)
                sync(self._root)
            clear(gone)

    @contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Lock a history against other changes until the block ends.

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
                    message = f"History {name} is being refreshed by another process. Wait until it ends."
                    raise ModelError(message) from error
                time.sleep(PROBE_SECONDS / 20)
        try:
            yield
        finally:
            lock.release()

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

    def publish(
        self, name: str, draft: Path, rows: int, kept: int, users: int, position: Mapping[str, Mapping[str, Any]]
    ) -> HistoryVersion:
        """Make a draft the newest version, in one step that survives a power cut; old versions are removed."""
        before = self.newest(name)
        number = 1 if before is None else before.number + 1
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        sums = sums_of(draft / IMAGE)
        values = {"rows": rows, "kept": kept, "users": users, "position": position, "created": created, "sums": sums}
        folder = draft.with_name(f"v{number}")
        with storing(draft):
            (draft / MANIFEST).write_text(json.dumps({"format": FORMAT, **values}), encoding="utf-8")
            sync_tree(draft)
            draft.rename(folder)
            sync(folder.parent)
        for _, old in version_folders(folder.parent)[:-KEPT_VERSIONS]:
            clear(old)
        return HistoryVersion(folder, number, rows, kept, users, position, created, sums)

    def _folder(self, name: str) -> Path:
        return self._root / folder_name(name)


def is_time(text: Any) -> bool:
    try:
        return isinstance(text, str) and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def damaged(path: Path, name: str) -> ModelError:
    return ModelError(
        f"{path} is damaged: it has other fields than it is written with. Restore it from a backup, or DROP HISTORY {name}."
    )


def link_events(before: HistoryVersion, draft: Path) -> int:
    """Link the previous version's events into a draft, merging files of a size; return the number of the next file."""
    files = sorted(before.events.glob("*.parquet"))
    number = max((int(file.stem.rpartition("-")[2]) for file in files), default=-1) + 1
    many = many_of_a_size(files)
    with storing(draft):
        make_folder(draft / "events")
        for file in files:
            if file not in many:
                os.link(file, draft / "events" / file.name)
        if many:
            merge(many, draft / "events" / event_file(number))
    return number + bool(many)


def event_file(number: int) -> str:
    return f"part-{number:08d}.parquet"


def many_of_a_size(files: Sequence[Path]) -> list[Path]:
    """Return files of about the same number of rows, where there are many; [] where there are not."""
    by_size: dict[int, list[Path]] = {}
    for file in files:
        rows = pq.read_metadata(file).num_rows
        by_size.setdefault(int(math.log(max(rows, 1), FILES_OF_A_SIZE)), []).append(file)
    return next((own for own in by_size.values() if len(own) >= FILES_OF_A_SIZE), [])


def merge(files: Sequence[Path], to: Path) -> None:
    """Write the rows of some files to one."""
    with pq.ParquetWriter(to, pq.read_schema(files[0]), compression="zstd") as writer:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches():
                writer.write_batch(batch)
