"""The chain that a version is read from: a version with all rows, and the delta versions after it.

    v7/rows/, v8/rows/, v8/tombstones/, v9/rows/        version 9 where 7 has all rows: its chain is 7, 8, 9
    v8/whole/files.json, v8/whole/rows/                 all rows of version 8, made later: the chain is 8, 9 from then on
    v8/kept.json                                        the manifest of a version that was dropped, and others need

What lies in `whole` says the same as the chain before it, so readers never notice that it comes or goes. Either is one step: a
folder is renamed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...platform.errors import ModelError
from ..checksums import FileEntry, VersionFile, check_files
from ..entries import many
from ..manifest import FILE, FORMAT, Manifest, read_json, read_manifest
from ..mapped import Identity

WHOLE, FILES, KEPT = "whole", "files.json", "kept.json"
SETTLED_SECONDS = 1.0


class ChainLink(NamedTuple):
    """A version of a chain.

    Attributes:
        number: of the version.
        folder: where the paths of its files begin.
        files: as manifests list them.
    """

    number: int
    folder: Path
    files: Sequence[FileEntry]

    def parts(self, name: str) -> list[VersionFile]:
        """Return the files of a folder: `rows/<table>`, `tombstones/<table>`."""
        return [VersionFile(self.folder / file.path, file) for file in self.files if Path(file.path).parent == Path(name)]

    @property
    def is_dropped(self) -> bool:
        """Whether the version was dropped, and is kept because others are read from it."""
        folder = self.folder.parent if self.folder.name == WHOLE else self.folder
        return (folder / KEPT).exists()

    @property
    def rows(self) -> int:
        """How many rows it has, of all tables, tombstones included."""
        return rows_in(self.files)


def rows_in(files: Sequence[FileEntry]) -> int:
    """Return how many rows some files of a version have, of all tables, tombstones included."""
    return sum(file.rows for file in files if file.path.startswith(("rows/", "tombstones/")))


def chain(folder: Path, manifest: Manifest) -> list[ChainLink]:
    """Return what a version is read from, in that order; the first has all rows.

    Raises:
        ModelError: one of them is missing or damaged.
    """
    links = []
    for number, at, of in lineage(folder, manifest):
        whole = whole_files(at)
        own = [file for file in of.files or () if file.path.startswith(("rows/", "tombstones/"))]
        links.append(ChainLink(number, at, own) if whole is None else ChainLink(number, at / WHOLE, whole))
        if whole is not None or of.base is None:
            return links[::-1]
    raise AssertionError("a lineage ends with a version that has all rows")


class Ancestor(NamedTuple):
    """A version of a lineage: its number, folder and manifest."""

    number: int
    folder: Path
    manifest: Manifest


def lineage(folder: Path, manifest: Manifest) -> Iterator[Ancestor]:
    """Yield a version and its ancestors, down to one that was written with all rows.

    Raises:
        ModelError: one is gone or damaged.
    """
    number = int(folder.name.removeprefix("v"))
    while True:
        yield Ancestor(number, folder, manifest)
        if manifest.base is None:
            return
        needed, number = number, manifest.base
        folder = folder.with_name(f"v{number}")
        try:
            manifest = manifest_of(folder)
        except FileNotFoundError as error:
            raise ModelError(
                f"Version {needed} changes rows of version {number}, and {folder} is gone. Restore it from a backup, or "
                "promote another version of the model."
            ) from error


def manifest_of(folder: Path) -> Manifest:
    """Read the manifest of a version, also of a dropped one that is still needed.

    Raises:
        FileNotFoundError: there is none.
        ModelError: it is damaged.
    """
    try:
        return read_known(folder, FILE)
    except FileNotFoundError:
        return read_known(folder, KEPT)


def read_known(folder: Path, name: str) -> Manifest:
    """Read a manifest; one that nobody has changed need not be read again, of which a model may have a thousand.

    Raises:
        FileNotFoundError: there is none.
        ModelError: it is damaged.
    """
    found = (folder / name).stat()
    # One that was just written may change again within a tick of the filesystem's clock.
    if abs(time.time() - max(found.st_mtime, found.st_ctime)) < SETTLED_SECONDS:
        return read_manifest(folder, name)
    return _read(folder, name, Identity.of(found))


@functools.lru_cache(2048)
def _read(folder: Path, name: str, identity: Identity) -> Manifest:
    return read_manifest(folder, name)


def whole_files(folder: Path) -> tuple[FileEntry, ...] | None:
    """Return the files of all rows that were made of a version of changes; None where there are none.

    Raises:
        ModelError: their list is damaged.
    """
    path = folder / WHOLE / FILES
    try:
        values = read_json(path)
    except FileNotFoundError:
        return None
    try:
        files: tuple[FileEntry, ...] = many(FileEntry)["read"](values["files"])
        check_files(files)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path} is damaged: {error}. Remove {path.parent}: the rows are in other files as well.") from error
    return files


def files_text(files: Sequence[FileEntry]) -> str:
    """Return the list of files as it is kept beside them."""
    return json.dumps({"format": FORMAT, "files": [dataclasses.asdict(file) for file in files]}, indent=1) + "\n"


def needed(version: Ancestor, found: set[int]) -> None:
    """Add the numbers of the versions that one is read from, and its own, to the numbers found before.

    Raises:
        ModelError: one of them is missing or damaged.
    """
    for number, folder, _ in lineage(version.folder, version.manifest):
        if number in found:
            return  # and with it the versions that it is read from
        found.add(number)
        if (folder / WHOLE / FILES).exists():
            return
