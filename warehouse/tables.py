"""Tables of the warehouse: folders of Parquet files that appear, change and go in one step.

    <warehouse>/tables/<name>/_manifest.json     the table: its files in order, and those of the state before
    <warehouse>/tables/<name>/_data/*.parquet    the files
    <warehouse>/tables/<name>/*.parquet          links to the files of the table, for Spark and others who read folders
    <warehouse>/tables/.drafts/<id>/             files that are being written
    <warehouse>/tables/.locks/<name>             held by who changes the table

A writer makes its files durable in a draft, and only then takes the table's lock, moves them into `_data` and replaces the
manifest, which is the step that counts. Files of the state before stay until the next change, so a reader that knows their
names goes on reading them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ..platform.errors import ModelError, StatementError
from ..platform.spark_types import type_words
from .durable import clear, make_folder, replace_text, storing, sync, sync_tree
from .locks import Lock, held
from .names import folder_name, model_name

FORMAT = 1
MANIFEST = "_manifest.json"
DATA = "_data"
WAIT_SECONDS = 30.0
ASK_SECONDS = 0.02

Change = Literal["new", "replace", "append", "overwrite"]
FITTED = ("append", "overwrite")
"""Changes that keep the columns of a table."""


@dataclass(frozen=True)
class Contents:
    """What a table's manifest says: names of files in order, those of the state before, and how many changes there were."""

    files: tuple[str, ...]
    before: tuple[str, ...]
    generation: int


class Tables:
    """The tables of a warehouse, shared with other processes."""

    def __init__(self, warehouse: Path) -> None:
        self._root = warehouse / "tables"

    def names(self) -> list[str]:
        """Return the names of all tables, sorted."""
        return sorted(model_name(manifest.parent.name) for manifest in self._root.glob(f"[!.]*/{MANIFEST}"))

    def exists(self, name: str) -> bool:
        return (self._folder(name) / MANIFEST).exists()

    def files(self, name: str) -> tuple[str, ...] | None:
        """Return the paths of a table's files in order, or None where there is no such table.

        Raises:
            ModelError: its manifest is damaged, or of a newer xpsql.
        """
        return self._paths(name, self._contents(name))

    def linked(self, name: str) -> tuple[str, ...] | None:
        """Return what `files` does, with the links in line for those who read them; a killed writer leaves them as they were.

        Raises:
            ModelError: as `files`, or the links cannot be written.
        """
        folder, contents = self._folder(name), self._contents(name)
        if contents is not None and {link.name for link in folder.glob("*.parquet")} != set(contents.files):
            with self._lock(name):
                contents = self._contents(name)
                if contents is not None:
                    _tidy(folder, contents)
        return self._paths(name, contents)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Give an empty folder to write Parquet files into, for `put`; it is gone when the block ends.

        Raises:
            ModelError: the warehouse is not writable.
        """
        drafts = self._root / ".drafts"
        folder = drafts / uuid.uuid4().hex
        lock = Lock(folder.with_suffix(".lock"), "written")
        try:
            _sweep(drafts)
            with storing(folder):
                folder.mkdir()
            yield folder
        finally:
            clear(folder)
            clear(folder.with_suffix(".lock"))
            lock.release()

    def put(self, name: str, draft: Path, change: Change) -> bool:
        """Make the files of a draft durable, and then a table's.

        Returns:
            False where there is such a table already (`new`), or none any more (`append`, `overwrite`); nothing changed then.

        Raises:
            StatementError: the table has other columns by now than the files (`append`, `overwrite`).
            ModelError: the warehouse is not writable; the table stays as it was.
        """
        with storing(draft):
            sync_tree(draft)
        with self._lock(name):
            old = self._contents(name)
            if (old is None and change in FITTED) or (old is not None and change == "new"):
                return False
            folder, old, drafted = self._folder(name), old or Contents((), (), 0), sorted(draft.glob("*.parquet"))
            if change in FITTED:
                _check_fits(name, folder / DATA / old.files[0], drafted[0])
            new = self._move(drafted, folder / DATA, old.generation + 1)
            files = (*old.files, *new) if change == "append" else new
            before = tuple(file for file in old.files if file not in files)
            contents = Contents(files, before, old.generation + 1)
            replace_text(folder / MANIFEST, json.dumps({"format": FORMAT, **asdict(contents)}, indent=1))
            with suppress(ModelError):  # the rows are in the table; `linked` and the next change try again
                _tidy(folder, contents)
        return True

    def drop(self, name: str) -> None:
        """Remove a table and its files; it is gone once its manifest is."""
        with self._lock(name):
            folder = self._folder(name)
            if folder.exists():
                with storing(folder):
                    (folder / MANIFEST).unlink(missing_ok=True)
                    sync(folder)
                clear(folder)

    def _move(self, files: Sequence[Path], data: Path, generation: int) -> tuple[str, ...]:
        """Move files into a table's folder, under names that sort in order, and return these."""
        names = tuple(f"part-{generation:06}-{i:05}-{uuid.uuid4().hex[:8]}.parquet" for i in range(len(files)))
        with storing(data):
            make_folder(data)
            for file, name in zip(files, names, strict=True):
                file.rename(data / name)
            for folder in (data, data.parent, self._root):
                sync(folder)
        return names

    def _paths(self, name: str, contents: Contents | None) -> tuple[str, ...] | None:
        return None if contents is None else tuple(str(self._folder(name) / DATA / file) for file in contents.files)

    def _contents(self, name: str) -> Contents | None:
        path = self._folder(name) / MANIFEST
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["format"] > FORMAT:
                raise ModelError(f"Table {name} was written by a newer xpsql (format {values['format']}). Upgrade xpsql.")
            return Contents(tuple(values["files"]), tuple(values["before"]), int(values["generation"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            message = f"The manifest {path} of table {name} cannot be read: {error}. Restore it, or remove the folder."
            raise ModelError(message) from error

    def _folder(self, name: str) -> Path:
        try:
            return self._root / folder_name(name)
        except ModelError as error:
            raise StatementError(f"The name {name!r} is empty or too long for a table. Choose another one.") from error

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        """Wait for a table's lock, which others hold for moments, and hold it."""
        path = self._root / ".locks" / self._folder(name).name
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                lock = Lock(path, "changed")
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    who = path.read_text(encoding="utf-8")
                    message = f"Table {name} is locked since {WAIT_SECONDS:.0f} s: {who}. Wait until that ends, or end it."
                    raise ModelError(message) from error
                time.sleep(ASK_SECONDS)
        try:
            yield
        finally:
            lock.release()


def _check_fits(name: str, file: Path, drafted: Path) -> None:
    """Require that rows have the columns of the table that they were made for, which may be another one by now."""
    has, given = _columns(file), _columns(drafted)
    if has != given:
        raise StatementError(
            f"Table {name} was replaced while the rows for it were computed: it has the columns {has} now, the rows have "
            f"{given}. Run the statement again."
        )


def _columns(file: Path) -> str:
    import pyarrow.parquet as pq

    return ", ".join(f"{field.name} {type_words(field.type).upper()}" for field in pq.read_schema(file))


def _tidy(folder: Path, contents: Contents) -> None:
    """Bring the links in line with the manifest, and remove files of states that are over."""
    with storing(folder):
        for link in set(folder.glob("*.parquet")) - {folder / file for file in contents.files}:
            link.unlink()
        for file in contents.files:
            if not (folder / file).is_symlink():
                (folder / file).symlink_to(Path(DATA, file))
        for path in (folder / DATA).iterdir():
            if path.name not in contents.files and path.name not in contents.before:
                path.unlink()


def _sweep(drafts: Path) -> None:
    """Remove the drafts of processes that were killed."""
    for folder in drafts.iterdir():
        lock = folder.with_suffix(".lock")
        if folder.is_dir() and not held(lock):
            clear(folder)
            clear(lock)
