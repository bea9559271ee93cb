"""The images of a version: its rows as memory-mapped files, weights only; layout.py has the format.

An image is derived: it is made when the version is first loaded, in the version's folder, or in the user's cache folder where
that cannot be written.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...warehouse.dense import read_dense
from ...warehouse.mapped import cut_off
from ..errors import ModelError
from ..ps._native import Image
from ..ps.messages import NO_MOMENTS, Keys, Pulled, on_device
from .layout import PAGE, Bytes, RowsLayout, damaged, in_memory, num_blocks, placed, verified, write_rows
from .tables import FileOfTables, Floats, absent_of, file_name, files_of, fill_from, training_of, unseen

if TYPE_CHECKING:
    from ...warehouse.version import Version

FOLDER, HALF_FOLDER = "serving", "fp16"
READ = 1 << 19
"""Bytes whose pages take half a millisecond to map."""
MADE_AGAIN = "It is made again from the version's rows; ask again in some seconds."

Report = Callable[[str], None]


class MappedRows(NamedTuple):
    """A file of rows that is mapped, or in memory, where `path` is None."""

    path: Path | None
    layout: RowsLayout
    memory: Bytes

    def check(self) -> None:
        """Refuse what was read of a file that was cut off where it stands; to be called afterwards.

        Raises:
            ModelError: it was.
        """
        if self.path is not None and cut_off(self.memory):
            raise ModelError(f"The image {self.path} is damaged: it was cut off while it was in use. {MADE_AGAIN}")


class ImageWeights:
    """The parameters of a version as readers need them, from images; see Weights.

    Args:
        version: a trained one, whose files are needed while this is made.
        bases: its images, or another version's.
        overs: for each base the rows that replace some of its rows, or None.
    """

    def __init__(self, version: Version, bases: Sequence[MappedRows], overs: Sequence[Bytes | None]) -> None:
        self.bases = tuple(bases)
        self._images = [Image(base.memory, over) for base, over in zip(bases, overs, strict=True)]
        self._tables = {table.name: table.dim for table in version.manifest.tables}
        self._dense = on_device({name: array for (name, _), array in read_dense(version.stored("dense"), "w").items()})

    @property
    def half(self) -> bool:
        """Rows are of 16 bits a float."""
        return any(base.layout.half for base in self.bases)

    def part(self, table: str) -> tuple[Image, int, int]:
        """Return where the weights of a table are: an image, from which float of its rows on, and how many."""
        for base, image in zip(self.bases, self._images, strict=True):
            for column in base.layout.columns:
                if (column.table, column.column) == (table, "w"):
                    return image, column.first, column.floats
        raise KeyError(table)

    def pull(self, keys: Keys, size: int) -> Pulled:
        """Return the weights of unique keys, zeros for unknown keys; see Shard."""
        weights, offered = dict[str, Floats](), dict[str, Floats]()
        for base, image in zip(self.bases, self._images, strict=True):
            outs = []
            for column in base.layout.columns:
                found = np.zeros((size, column.floats), np.float32)
                (weights if column.column == "w" else offered)[column.table] = found
                outs.append((column.first, found))
            image.gather(keys, outs)
        return Pulled({name: weights[name] for name in self._tables}, {}, self._dense, NO_MOMENTS, offered)

    def has(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which keys have a row in the first table."""
        found: NDArray[np.bool_] = self.part(next(iter(self._tables)))[0].has(keys).astype(bool)
        return found

    def check(self) -> None:
        """Refuse what was read of images that were cut off where they stand; see MappedRows."""
        for base in self.bases:
            base.check()

    def pages(self) -> Iterator[Bytes]:
        """Give a byte of each page of the images, a piece of them at a time: to look at them brings them into memory."""
        for base in self.bases:
            yield from (base.memory[at : at + READ : PAGE] for at in range(0, len(base.memory), READ))

    @property
    def blocks(self) -> int:
        """How many blocks `damage` can look at."""
        return sum(num_blocks(base.layout) for base in self.bases)

    def damage(self, blocks: range) -> Path | None:
        """Return a file that has a damaged block among some blocks, or was cut off where it stands; None for none."""
        first = 0
        for base in self.bases:
            own = range(num_blocks(base.layout))
            wanted = range(max(blocks.start - first, 0), min(blocks.stop - first, own.stop))
            if base.path is not None and cut_off(base.memory):
                return base.path
            if base.path is not None and next(damaged(base.layout, base.memory, wanted), None) is not None:
                return base.path
            first += own.stop
        return None


def images_of(version: Version, half: bool, report: Report) -> list[MappedRows]:
    """Map the images of a version; missing or damaged ones are made.

    Args:
        half: of 16 bits a float.
        report: called with each problem of an image, a line of text.
    """
    found = found_images(version, half, report)
    return make_images(version, half, report) if found is None else found


def make_images(version: Version, half: bool, report: Report) -> list[MappedRows]:
    """Make the images of a version, and map them; they stay in memory where no folder can be written."""
    files = files_of(version)
    absent = absent_of(files)
    for folder in folders_of(version, half):
        try:
            for file in files:
                write(folder / file.file, version, file, half, absent)
            return mapped(version, folder)
        except OSError as error:
            problem = error
    report(f"The image of {version.folder} stays in memory: {problem}.")
    made = []
    for file in files:
        layout, place = placed(file.keys, file.columns, half, absent, training_of(version))
        made.append(MappedRows(None, layout, in_memory(layout, file.keys, place, fill_from(version, file.columns, unseen))))
    return made


def found_images(version: Version, half: bool, report: Report) -> list[MappedRows] | None:
    """Map the images that a version has; None where it has none, or damaged ones."""
    for folder in folders_of(version, half):
        if (folder / file_name(None)).exists():
            try:
                return mapped(version, folder)
            except (OSError, ValueError) as error:
                report(f"The image {folder} cannot be used and is made again: {error}.")
    return None


def mapped(version: Version, folder: Path) -> list[MappedRows]:
    """Map the images that a folder has of a version, verified.

    Raises:
        OSError: one cannot be read.
        ValueError: one is damaged, or of another training.
    """
    found: list[MappedRows] = []
    for table in version.manifest.tables:
        if any(column.table == table.name for one in found for column in one.layout.columns):
            continue
        path = folder / file_name(table.name if found else None)
        layout, memory = verified(path)
        Image(memory)  # raises the problem
        if layout.training != training_of(version) or table.name not in {column.table for column in layout.columns}:
            raise ValueError("it is of another training")
        found.append(MappedRows(path, layout, memory))
    return found


def write(path: Path, version: Version, file: FileOfTables, half: bool, absent: int) -> None:
    """Write an image, which appears whole.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        layout, place = placed(file.keys, file.columns, half, absent, training_of(version))
        write_rows(begun, layout, file.keys, place, fill_from(version, file.columns, unseen))
        begun.replace(path)
    finally:
        begun.unlink(missing_ok=True)


def folders_of(version: Version, half: bool) -> list[Path]:
    """Return where the images of a version may be."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cached = root / "xpsql" / FOLDER / hashlib.sha256(str(version.folder).encode()).hexdigest()[:16]
    return [folder / HALF_FOLDER if half else folder for folder in (version.folder / FOLDER, cached)]
