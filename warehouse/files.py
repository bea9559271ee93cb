"""Where the data of a version is."""

from __future__ import annotations

from pathlib import Path

from ..platform.errors import ModelError
from .durable import make_folder, storing
from .manifest import TableEntry
from .names import part_name
from .rows import RowWriter
from .stored import NUM_SLICES


class Folders:
    """The folders of a version's data; durable with the commit.

    Attributes:
        folder: of the version.
    """

    folder: Path

    def rows_of(self, table: str) -> Path:
        """That of a table's rows."""
        return self._own("rows", table)

    def tombstones_of(self, table: str) -> Path:
        """That of the keys of a table's rows that are gone."""
        return self._own("tombstones", table)

    @property
    def dense(self) -> Path:
        """That of dense parameters."""
        return self._own("dense")

    @property
    def candidates(self) -> Path:
        """That of features that occurred but have no row."""
        return self._own("candidates")

    @property
    def trials(self) -> Path:
        """That of the rows that features without one would have."""
        return self._own("trials")

    @property
    def package(self) -> Path:
        """That of the model of another package."""
        return self._own("package")

    def vectors_of(self, name: str) -> Path:
        """That of vectors with ids."""
        return self._own("vectors", name)

    @property
    def tree(self) -> Path:
        """That of a tree of items."""
        return self._own("tree")

    def _own(self, *names: str) -> Path:
        """Return a folder of this version.

        Raises:
            ModelError: it lies elsewhere, by a link or by its name.
        """
        path = self.folder.joinpath(*names)
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise ModelError(f"{path} is damaged: it leads out of the version's folder. Restore it from a backup.")
        return path


class VersionFiles(Folders):
    """Where a version's data are written. Tasks on other machines, which share the warehouse, write through one of their own.

    Args:
        folder: of the version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def staged(self) -> Path:
        """Where staged input goes; removed once the version is committed or failed."""
        return self.folder / "staged"

    @property
    def apart(self) -> Path:
        """Where rows go that a training is validated on; they are staged beside its input."""
        return self.staged / "apart"

    @property
    def items(self) -> Path:
        """Where the items of a statement go; removed as the staged input is."""
        return self.folder / "items"

    @property
    def saved(self) -> Path:
        """Where tasks write rows before they are the version's."""
        return self.folder / "saved"

    def best(self, pass_number: int) -> VersionFiles:
        """Where the rows of a pass go that may become the version's; kept by RESUME."""
        return VersionFiles(self.folder / "best" / str(pass_number))

    def writer(self, table: TableEntry, part: int = 0, run: int = NUM_SLICES, compression: str = "none") -> RowWriter:
        """Open a writer of one part of a table's rows; each shard writes its own. See RowWriter."""
        return writer_in(self.rows_of(table.name), table, part, run, compression)

    def tombstone_writer(self, table: TableEntry, part: int, run: int) -> RowWriter:
        """Open a writer of the keys of a shard's rows that are gone."""
        return writer_in(self.tombstones_of(table.name), None, part, run, "zstd")

    def trial_writer(self, table: TableEntry, part: int) -> RowWriter:
        """Open a writer of the rows that a shard's features without one would have."""
        return writer_in(self.trials, table, part, NUM_SLICES)


def writer_in(folder: Path, table: TableEntry | None, part: int, run: int, compression: str = "none") -> RowWriter:
    """Open a writer of rows in a folder, which is made."""
    with storing(folder):
        make_folder(folder)
    return RowWriter(folder / part_name(part), table, run, compression)
