"""Tables of the warehouse: folders of Parquet files that appear, change and go in one step.

    <warehouse>/tables/<name>/_manifest.json     the table: its files in order, and the files of the previous state
    <warehouse>/tables/<name>/_data/*.parquet    the files
    <warehouse>/tables/<name>/*.parquet          links to the files of the table, for Spark and others who read folders
    <warehouse>/tables/.drafts/<id>/             files that are being written
    <warehouse>/tables/.locks/<name>             held by the process that changes the table

Each file of a partitioned table has rows of one partition, whose values are in the file like other columns, and in the
manifest.

A writer makes its files durable in a draft, and only then takes the table's lock, moves them into `_data` and replaces the
manifest, which is the step that counts. Files of the previous state stay until the next change, so a reader that knows their
names goes on reading them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..platform.errors import ModelError, StatementError
from ..platform.spark_types import type_words
from .durable import clear, make_folder, replace_text, storing, sync, sync_tree
from .locks import Lock, held
from .names import folder_name, model_name

if TYPE_CHECKING:
    import pyarrow as pa

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
    """What a table's manifest says.

    Attributes:
        files: their names, in order.
        before: the files of the previous state.
        generation: how many changes there were.
        partitioned_by: the partition columns.
        partitions: of each file that has rows, the values of these columns.
    """

    files: tuple[str, ...]
    before: tuple[str, ...]
    generation: int
    partitioned_by: tuple[str, ...] = ()
    partitions: dict[str, list[str | None]] = field(default_factory=dict)

    def within(self, file: str, only: Mapping[str, str | None]) -> bool:
        """Return whether a file is of the partitions whose columns have some values; with none, every file is."""
        values = dict(zip(self.partitioned_by, self.partitions.get(file, ()), strict=False))
        return not only or (bool(values) and all(values[name] == value for name, value in only.items()))


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

    def generation(self, name: str) -> int:
        """Return how many changes a table has seen, 0 where there is none."""
        contents = self._contents(name)
        return 0 if contents is None else contents.generation

    def partitioned_by(self, name: str) -> tuple[str, ...]:
        """Return the columns that a table is partitioned by.

        Raises:
            ModelError: see `files`.
        """
        contents = self._contents(name)
        return () if contents is None else contents.partitioned_by

    def partitions(self, name: str) -> list[tuple[str | None, ...]]:
        """Return the values of a table's partitions, sorted as texts.

        Raises:
            ModelError: see `files`.
        """
        contents = self._contents(name)
        found = {tuple(values) for values in contents.partitions.values()} if contents is not None else set()
        return sorted(found, key=lambda values: [(value is not None, value or "") for value in values])

    def linked(self, name: str) -> tuple[str, ...] | None:
        """Return what `files` does, with updated links for their readers; a killed writer leaves them as they were.

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
        """Yield an empty folder to write Parquet files into, for `put`; it is removed when the block ends.

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

    def put(
        self,
        name: str,
        draft: Path,
        change: Change,
        partitioned_by: Sequence[str] = (),
        only: Mapping[str, pa.Scalar[pa.DataType]] | None = None,
    ) -> bool:
        """Make the files of a draft durable, and then a table's.

        Args:
            partitioned_by: the columns that the table is partitioned by; a file of the draft has rows of one partition.
            only: the values of partitions that `overwrite` takes the place of, by column; all where it is empty.

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
            folder, old, drafted = self._folder(name), old or Contents((), (), 0), sorted(draft.rglob("*.parquet"))
            by = tuple(partitioned_by)
            if change in FITTED:
                _check_fits(name, folder / DATA / old.files[0], drafted[0], old.partitioned_by == by)
            values = [_values(file, by) for file in drafted]
            new = self._move(drafted, folder / DATA, old.generation + 1)
            replaced = {column: _text(value) for column, value in (only or {}).items()}
            kept = {"append": old.files, "overwrite": [f for f in old.files if not old.within(f, replaced)]}.get(change, ())
            files = (*kept, *new)
            before = tuple(file for file in old.files if file not in files)
            parts = {**old.partitions, **dict(zip(new, values, strict=True))}
            known = {file: value for file in files if (value := parts.get(file))}
            contents = Contents(files, before, old.generation + 1, by, known)
            replace_text(folder / MANIFEST, json.dumps(entry(contents), indent=1))
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
            by, parts = tuple(values["partitioned_by"]), dict(values["partitions"])
            return Contents(tuple(values["files"]), tuple(values["before"]), int(values["generation"]), by, parts)
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
                    message = f"Table {name} has been locked for {WAIT_SECONDS:.0f} s: {who}. Wait until that ends, or end it."
                    raise ModelError(message) from error
                time.sleep(ASK_SECONDS)
        try:
            yield
        finally:
            lock.release()


def entry(contents: Contents) -> dict[str, object]:
    """Return what a manifest holds."""
    return {"format": FORMAT, **asdict(contents)}


def _check_fits(name: str, file: Path, drafted: Path, partitioned_alike: bool) -> None:
    """Require that rows have the columns of the table that they were made for, which may be another one by now."""
    has, given = _columns(file), _columns(drafted)
    if not partitioned_alike:
        raise StatementError(f"Table {name} was replaced by one with other partitions meanwhile. Run the statement again.")
    if has != given:
        raise StatementError(
            f"Table {name} was replaced while the rows for it were computed: it has the columns {has} now, the rows have "
            f"{given}. Run the statement again."
        )


def _columns(file: Path) -> str:
    import pyarrow.parquet as pq

    return ", ".join(f"{field.name} {type_words(field.type).upper()}" for field in pq.read_schema(file))


def _values(file: Path, columns: Sequence[str]) -> list[str | None]:
    """Return the values of some columns in a file whose rows all have the same; none of a file without rows."""
    import pyarrow.parquet as pq

    if not columns:
        return []
    with pq.ParquetFile(file) as opened:
        first = next(opened.iter_batches(1, columns=list(columns)), None)
    return [] if first is None else [_text(first[column][0]) for column in columns]


def _text(value: pa.Scalar[pa.DataType]) -> str | None:
    import pyarrow as pa

    return value.cast(pa.string()).as_py() if value.is_valid else None


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
