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
from .locks import Lock
from .names import folder_name, model_name
from .scratch import drafting

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
        deleted: how many rows of files are gone, by the place of the file.
    """

    files: tuple[str, ...]
    before: tuple[str, ...]
    generation: int
    partitioned_by: tuple[str, ...] = ()
    partitions: dict[str, list[str | None]] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)

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
        contents = self.contents(name)
        return None if contents is None else self.paths(name, contents.files)

    def paths(self, name: str, files: Sequence[str]) -> tuple[str, ...]:
        """Return the paths of some of a table's files."""
        return tuple(str(self._folder(name) / DATA / file) for file in files)

    def generation(self, name: str) -> int:
        """Return how many changes a table has seen, 0 where there is none."""
        contents = self.contents(name)
        return 0 if contents is None else contents.generation

    def partitioned_by(self, name: str) -> tuple[str, ...]:
        """Return the columns that a table is partitioned by; raises as `files`."""
        contents = self.contents(name)
        return () if contents is None else contents.partitioned_by

    def partitions(self, name: str) -> list[tuple[str | None, ...]]:
        """Return the values of a table's partitions, sorted as texts; raises as `files`."""
        contents = self.contents(name)
        found = {tuple(values) for values in contents.partitions.values()} if contents is not None else set()
        return sorted(found, key=lambda values: [(value is not None, value or "") for value in values])

    def linked(self, name: str) -> tuple[str, ...] | None:
        """Return what `files` does, with updated links for their readers; a killed writer leaves them as they were.

        Raises:
            ModelError: as `files`, or the links cannot be written.
        """
        folder, contents = self._folder(name), self.contents(name)
        if contents is not None and {link.name for link in folder.glob("*.parquet")} != set(contents.files):
            with self._lock(name):
                contents = self.contents(name)
                if contents is not None:
                    _tidy(folder, contents)
        return None if contents is None else self.paths(name, contents.files)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Yield an empty folder to write Parquet files into, for `put`; it is removed when the block ends.

        Raises:
            ModelError: the warehouse is not writable.
        """
        with drafting(self._root / ".drafts") as folder:
            yield folder

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
            old = self.contents(name)
            if (old is None and change in FITTED) or (old is not None and change == "new"):
                return False
            folder, old, drafted = self._folder(name), old or Contents((), (), 0), sorted(draft.rglob("*.parquet"))
            by = tuple(partitioned_by)
            if change in FITTED:
                _check_fits(name, folder / DATA / old.files[0], drafted[0], old.partitioned_by == by)
            values = [_values(file, by) for file in drafted]
            new = self._move(drafted, folder / DATA, [f"part-{old.generation + 1:06}-{i:05}" for i in range(len(drafted))])
            replaced = {column: text_of(value) for column, value in (only or {}).items()}
            kept = {"append": old.files, "overwrite": [f for f in old.files if not old.within(f, replaced)]}.get(change, ())
            files = (*kept, *new)
            before = tuple(file for file in old.files if file not in files)
            parts = {**old.partitions, **dict(zip(new, values, strict=True))}
            known = {file: value for file in files if (value := parts.get(file))}
            deleted = old.deleted if kept else {}
            _replace(folder, Contents(files, before, old.generation + 1, by, known, deleted))
        return True

    def shrink(self, name: str, draft: Path, smaller: Mapping[str, Path | None]) -> int:
        """Put files with fewer rows in the place of a table's files, and return how many rows are gone.

        Args:
            smaller: files of a draft by the names of the table's; None: no row is left.

        Raises:
            StatementError: another statement has changed one of the files meanwhile.
            ModelError: the warehouse is not writable; the table stays as it was.
        """
        import pyarrow.parquet as pq

        folder, none = self._folder(name), draft / "none.parquet"
        with storing(draft):
            for file in list(smaller)[:1]:
                pq.write_table(pq.read_schema(folder / DATA / file).empty_table(), none)
            sync_tree(draft)
        with self._lock(name):
            old = self.contents(name)
            if old is None or not smaller.keys() <= set(old.files):
                raise StatementError(f"Table {name} was changed by another statement meanwhile. Run the statement again.")
            left = {file: path for file, path in smaller.items() if path is not None}
            if len(smaller) == len(old.files) and not left:
                left = {old.files[-1]: none}  # a table has a file that has its columns
            gone = {place(file): _rows(folder / DATA / file) - _rows(left.get(file)) for file in smaller}
            new = dict(zip(left, self._move(list(left.values()), folder / DATA, list(map(place, left))), strict=True))
            files = tuple(new.get(file, file) for file in old.files if file in new or file not in smaller)
            parts = {new.get(file, file): values for file, values in old.partitions.items() if left.get(file) != none}
            known = {file: parts[file] for file in files if file in parts}
            deleted = {**old.deleted, **{at: old.deleted.get(at, 0) + rows for at, rows in gone.items() if rows}}
            _replace(folder, Contents(files, tuple(smaller), old.generation + 1, old.partitioned_by, known, deleted))
        return sum(gone.values())

    def drop(self, name: str) -> None:
        """Remove a table and its files; it is gone once its manifest is."""
        with self._lock(name):
            folder = self._folder(name)
            if folder.exists():
                with storing(folder):
                    (folder / MANIFEST).unlink(missing_ok=True)
                    sync(folder)
                clear(folder)

    def _move(self, files: Sequence[Path], data: Path, places: Sequence[str]) -> tuple[str, ...]:
        """Move files into a table's folder, under new names that sort as their places do, and return these."""
        names = tuple(f"{place}-{uuid.uuid4().hex[:8]}.parquet" for place in places)
        with storing(data):
            make_folder(data)
            for file, name in zip(files, names, strict=True):
                file.rename(data / name)
            for folder in (data, data.parent, self._root):
                sync(folder)
        return names

    def contents(self, name: str) -> Contents | None:
        """Return what a table's manifest says, None where there is no such table; raises as `files`."""
        path = self._folder(name) / MANIFEST
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["format"] > FORMAT:
                raise ModelError(f"Table {name} was written by a newer xpsql (format {values['format']}). Upgrade xpsql.")
            by, parts, deleted = tuple(values["partitioned_by"]), dict(values["partitions"]), dict(values.get("deleted", {}))
            return Contents(tuple(values["files"]), tuple(values["before"]), int(values["generation"]), by, parts, deleted)
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


def place(file: str) -> str:
    """Return the place of a file among those of its table, in the order in which they were added."""
    return file.rpartition("-")[0]


def _replace(folder: Path, contents: Contents) -> None:
    """Replace a table's manifest, the step that counts."""
    replace_text(folder / MANIFEST, json.dumps(entry(contents), indent=1))
    with suppress(ModelError):  # the change is made; `linked` and the next one try again
        _tidy(folder, contents)


def _rows(file: Path | None) -> int:
    import pyarrow.parquet as pq

    return 0 if file is None else pq.read_metadata(file).num_rows


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
    return [] if first is None else [text_of(first[column][0]) for column in columns]


def text_of(value: pa.Scalar[pa.DataType]) -> str | None:
    """Return a value of a partition as manifests have it."""
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
