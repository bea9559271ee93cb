"""A folder as a stream: files arrive in it and are immutable."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....warehouse.entries import Split
from ...display import plural
from ...engines.base import Scan
from ...errors import DataError, StatementError
from ...local import local_path
from ...options import option
from .base import Position
from .files import ArrivedFile, file_at, files_of

if TYPE_CHECKING:
    from .record_files import FileFormat

LOOK_SECONDS = 0.3
"""The time between two looks at new files; files that changed meanwhile are still being written."""
FRESH_SECONDS = 60.0
"""A file younger than this may still be written: it may change, or become readable."""
DAY_NANOSECONDS = 24 * 3600 * 10**9
KEPT_FILES = 1000
FORMATS = ("parquet", "json", "avro")


@dataclass(frozen=True)
class FilesOptions:
    """Options of read_files."""

    format: str = option("parquet", "the files' format; json: an object in each line", choices=FORMATS)
    schema: str | None = option(None, "columns of JSON objects, 'user STRING, ts TIMESTAMP'; other formats have a schema")
    on_error: str = option(
        "fail",
        "a line that does not fit the schema: an error, or skipped and recorded with the version",
        choices=("fail", "skip"),
    )


class FolderStream:
    """The files of a folder, or files that match a pattern; files of the same day are ordered by name.

    The position lists the learned files that were modified on the day of the newest, at least 1,000, and a time: of files older
    than that only the number is kept.

    Args:
        path: a folder, file or pattern.
        forgives: files that changed, or arrived with an old time, are skipped.

    Raises:
        StatementError: the options cannot be used; says why.
    """

    def __init__(self, path: str, options: FilesOptions, warehouse: Path, forgives: bool) -> None:
        check_schema(options)
        self._options = options
        self._path = local_path(path, "What a stream reads", None)
        self._warehouse = warehouse
        self._forgives = forgives

    @property
    def name(self) -> str:
        """The folder's, as messages call it."""
        return f"files {self._path}"

    def waits(self, position: Position) -> bool:
        """Return whether there are new or changed files."""
        found, learned = look(self._path), known(position)
        old = older(found, learned, position)
        same = sum(learned.get(path) == file for path, file in found.items())
        return same + len(old) < len(found) or len(old) > position.get("forgotten", 0)

    def news(self, position: Position) -> list[Split]:
        """List the row groups of the files that have arrived and no longer change, by the day they were modified and by name:
        a position keeps the files of its newest day, so that none that is left for later is older than what it keeps."""
        found, learned = look(self._path), known(position)
        self._check(found, learned, position)
        fresh = {
            path: file for path, file in found.items() if path not in learned and file.modified >= position.get("before", 0)
        }
        if not fresh:
            return []
        if max(file.modified for file in fresh.values()) / 1e9 > time.time() - FRESH_SECONDS:
            time.sleep(LOOK_SECONDS)
        again = look(self._path)
        still = [file for file in sorted(fresh.values(), key=by_day) if again.get(file.path) == file]
        return [split for file in still for split in whole(file, self._format)]

    def after(self, position: Position, splits: Sequence[Split]) -> Position:
        """Return the position after all files that are learned from."""
        files = {**known(position), **{file.path: file for file in files_of(splits)}}
        kept = sorted(files.values(), key=lambda file: file.modified, reverse=True)
        newest = kept[0].modified if kept else 0
        count = max(KEPT_FILES, sum(file.modified > newest - DAY_NANOSECONDS for file in kept))
        before = max([position.get("before", 0), *(file.modified + 1 for file in kept[count:])])
        return {
            "files": sorted(kept[:count]),
            "before": before,
            "forgotten": position.get("forgotten", 0) + len(kept[count:]),
            "rows": position.get("rows", 0) + sum(split.rows for split in splits),
        }

    def forgiven(self, position: Position) -> Position:
        """Return the position with changed files as they are now, and with those that came late."""
        found, learned = look(self._path), known(position)
        changed = {path: file for path, file in found.items() if path in learned and learned[path] != file}
        late = len(older(found, learned, position))
        if not changed and late <= position.get("forgotten", 0):
            return position
        files = sorted({**learned, **changed}.values())
        return {**position, "files": files, "forgotten": max(late, position.get("forgotten", 0))}

    def noticed(self, position: Position) -> str | None:
        """Return nothing: what is gone stops a training, or is passed over."""
        return None

    def counted(self, position: Position) -> str:
        """Return how many rows and files that is."""
        count = len(position.get("files", ())) + position.get("forgotten", 0)
        return f"{position.get('rows', 0):,} rows in {count} {plural('file', count)}"

    def scan(self, query: str, splits: Sequence[Split]) -> Scan:
        """Return how splits are read."""
        options = self._options
        return self._format.scan(query, splits, self._warehouse, options.schema, options.on_error == "skip")

    @property
    def _format(self) -> FileFormat:
        from .record_files import FORMATS  # brings what a job that finds nothing new does without

        return FORMATS[self._options.format]

    def _check(self, found: Mapping[str, ArrivedFile], learned: Mapping[str, ArrivedFile], position: Position) -> None:
        """Refuse files that changed since they were learned, and files that arrived with a time before the position's."""
        changed = [path for path, file in found.items() if path in learned and learned[path] != file]
        old = older(found, learned, position)
        late = len(old) - position.get("forgotten", 0)
        if self._forgives:
            return
        if changed:
            raise DataError(
                f"{len(changed)} of {len(learned)} files that were learned from have changed since, {changed[0]} first: what "
                "was added to them is not learned. Write new rows to new files; WITH (data_loss = 'continue') passes over "
                "these."
            )
        if late > 0:
            raise DataError(
                f"{len(old)} files of {self._path} are older than the position's files, and only {position['forgotten']} such "
                f"were learned from: {late} came late. Touch those to learn from them; WITH (data_loss = 'continue') passes "
                "over them."
            )


def check_schema(options: FilesOptions) -> None:
    """Require a schema for JSON, and for no other format.

    Raises:
        StatementError: says what to add or leave out.
    """
    if (options.schema is None) == (options.format == "json"):
        has = "takes no schema: files have their columns" if options.schema else "expects schema => 'user STRING, click INT'"
        raise StatementError(f"read_files(..., format => '{options.format}') {has}.")


def known(position: Position) -> dict[str, ArrivedFile]:
    """Return the files that a position has, by path."""
    return {file.path: file for file in (ArrivedFile(*values) for values in position.get("files", ()))}


def older(found: Mapping[str, ArrivedFile], learned: Mapping[str, ArrivedFile], position: Position) -> list[ArrivedFile]:
    """Return the files from before those that a position has."""
    return [file for path, file in found.items() if path not in learned and file.modified < position.get("before", 0)]


def by_day(file: ArrivedFile) -> tuple[int, str]:
    """Return a file's place among those that arrive together."""
    return file.modified // DAY_NANOSECONDS, file.path


def look(path: Path) -> dict[str, ArrivedFile]:
    """Return the files that are there, by path; those whose names begin with . or _ are not whole.

    Raises:
        StatementError: nothing is there, or the files are in folders of a partition.
    """
    places = [path] if path.exists() else [Path(found) for found in glob.glob(str(path))]  # noqa: PTH207
    if not places:
        raise StatementError(f"There is nothing at {path}. Make the folder first, or check the spelling.")
    return {file.path: file for place in places for file in files_at(place)}


def files_at(place: Path) -> Iterable[ArrivedFile]:
    """Yield the files of a folder, or the file itself."""
    for path in place.iterdir() if place.is_dir() else (place,):
        if path.name.startswith((".", "_")):
            continue
        try:
            if path.is_dir():
                if "=" in path.name:
                    raise StatementError(
                        f"A stream reads the files of one folder, and {place} has partitions such as {path.name}. Name them by "
                        f"a pattern, {place}/*/*, and write their columns into the files."
                    )
                continue
            yield file_at(path)
        except FileNotFoundError:  # moved away since the folder was listed
            continue


def whole(file: ArrivedFile, format: FileFormat) -> list[Split]:
    """Return the splits of a file; none of one that was written just now and is not whole.

    Raises:
        DataError: it cannot be read, and is not being written any more.
    """
    try:
        return format.splits(file)
    except DataError:
        if time.time() - file.modified / 1e9 < FRESH_SECONDS:
            return []
        raise
