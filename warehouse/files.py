"""Where the data of a version is."""

from __future__ import annotations

from pathlib import Path

from .manifest import Table
from .rows import RowWriter


class VersionFiles:
    """The folders of a version's data. Tasks on other machines, which share the warehouse, write through one of their own.

    Attributes:
        folder: of the version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def staged(self) -> Path:
        """Where staged input goes; removed once the version is committed or failed."""
        return self.folder / "staged"

    @property
    def saved(self) -> Path:
        """Where tasks write rows before they are the version's."""
        return self.folder / "saved"

    @property
    def dense(self) -> Path:
        """Where dense parameters go; durable with the commit."""
        return self.folder / "dense"

    @property
    def candidates(self) -> Path:
        """Where features without rows go; durable with the commit."""
        return self.folder / "candidates"

    @property
    def package(self) -> Path:
        """Where the model of another package goes; durable with the commit."""
        return self.folder / "package"

    def writer(self, table: Table, part: int = 0) -> RowWriter:
        """Open a writer of one part of a table's rows."""
        return RowWriter(self.folder / "rows" / table.name, table, part)
