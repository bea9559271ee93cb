"""The folders and files of a version's data."""

from __future__ import annotations

from pathlib import Path

from ..platform.errors import ModelError
from .checksums import NUM_SLICES
from .durable import make_folder, storing
from .entries import TableEntry
from .names import part_name
from .rows import RowWriter


class Folders:
    """The folders of a version's data; durable with the commit.

    Attributes:
        folder: of the version.
    """

    folder: Path

    def rows_of(self, table: str) -> Path:
        """The folder of a table's rows."""
        return self._own("rows", table)

    def tombstones_of(self, table: str) -> Path:
        """The folder of the keys of a table's removed rows."""
        return self._own("tombstones", table)

    @property
    def dense(self) -> Path:
        """The folder of dense parameters."""
        return self._own("dense")

    @property
    def candidates(self) -> Path:
        """The folder of features that occurred but have no row."""
        return self._own("candidates")

    @property
    def trials(self) -> Path:
        """The folder of trial rows, of features without a row."""
        return self._own("trials")

    @property
    def package(self) -> Path:
        """The folder of another package's model."""
        return self._own("package")

    def vectors_of(self, name: str) -> Path:
        """The folder of vectors with ids."""
        return self._own("vectors", name)

    @property
    def tree(self) -> Path:
        """The folder of a tree of items."""
        return self._own("tree")

    @property
    def calibration(self) -> Path:
        """The folder of what calibrates predictions."""
        return self._own("calibration")

    @property
    def profile(self) -> Path:
        """The folder of the profile of the rows that it learned."""
        return self._own("profile")

    @property
    def program(self) -> Path:
        """Files that a program of the user's kept beside rows that it learned."""
        return self._own("program")

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
        """Where validation rows are staged, beside the input."""
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
        """Where the rows of the best pass go; kept for RESUME."""
        return VersionFiles(self.folder / "best" / str(pass_number))

    @property
    def rounds(self) -> Path:
        """Where it is kept how far a training was before each of its rounds; for RESUME."""
        return self.folder / "rounds"

    def writer(self, table: TableEntry, part: int = 0, run: int = NUM_SLICES, compression: str = "none") -> RowWriter:
        """Open a writer of one part of a table's rows; each shard writes its own. See RowWriter."""
        return writer_in(self.rows_of(table.name), table, part, run, compression)

    def tombstone_writer(self, table: TableEntry, part: int, run: int) -> RowWriter:
        """Open a writer of tombstones, the keys of a shard's removed rows."""
        return writer_in(self.tombstones_of(table.name), None, part, run, "zstd")

    def trial_writer(self, table: TableEntry, part: int) -> RowWriter:
        """Open a writer of a shard's trial rows."""
        return writer_in(self.trials, table, part, NUM_SLICES)


def writer_in(folder: Path, table: TableEntry | None, part: int, run: int, compression: str = "none") -> RowWriter:
    """Open a writer of rows in a folder, which is made."""
    with storing(folder):
        make_folder(folder)
    return RowWriter(folder / part_name(part), table, run, compression)
