"""The rows of a version, read once: into files of rows, and those of a few keys into memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...warehouse.dense import read_dense
from ..ps.messages import NO_MOMENTS, Array, Keys, Pulled
from ..ps.programs import OFFERED
from ..training.row_columns import values
from .core import RowColumn
from .graph import StoredRows
from .rows_file import unused, write_rows

if TYPE_CHECKING:
    from ...warehouse.version import Version

Floats = NDArray[np.float32]


class FileOfTables(NamedTuple):
    """A file to write, of tables that have rows for the same keys.

    Attributes:
        columns: `first` is in the rows of this file.
    """

    file: str
    keys: Keys
    columns: tuple[RowColumn, ...]

    @property
    def width(self) -> int:
        return sum(column.floats for column in self.columns)


class SomeRows:
    """What a version knows of a few keys, for a Scorer.

    Args:
        keys: ascending.
        dense: the dense parameters.
    """

    def __init__(self, version: Version, keys: Keys, dense: dict[str, Array]) -> None:
        tables = version.manifest.tables
        self.keys, self._dense = keys, dense
        self._weights = {table.name: np.zeros((len(keys), table.dim), np.float32) for table in tables}
        self._offered = {
            table.name: np.zeros((len(keys), table.columns[OFFERED]), np.float32)
            for table in tables
            if OFFERED in table.columns
        }

    def take(self, column: RowColumn, keys: Keys, floats: Floats) -> None:
        """Keep those of some rows whose keys are wanted."""
        place = np.searchsorted(self.keys, keys).clip(max=max(len(self.keys) - 1, 0))
        mine = np.flatnonzero(self.keys[place] == keys) if len(self.keys) else place[:0]
        self._of(column)[place[mine]] = floats[mine]

    def of(self, column: RowColumn, keys: Keys) -> Floats:
        """Return the floats of keys, all of them among those wanted."""
        return self._of(column)[np.searchsorted(self.keys, keys)]

    def pull(self, keys: Keys, size: int) -> Pulled:
        """See Shard."""
        place = np.searchsorted(self.keys, keys)

        def padded(arrays: dict[str, Floats]) -> dict[str, Floats]:
            return {
                name: np.concatenate([a[place], np.zeros((size - len(keys), a.shape[1]), np.float32)])
                for name, a in arrays.items()
            }

        return Pulled(padded(self._weights), {}, self._dense, NO_MOMENTS, padded(self._offered))

    def _of(self, column: RowColumn) -> Floats:
        return (self._weights if column.column == "w" else self._offered)[column.table]


def files_of(version: Version) -> list[FileOfTables]:
    """Return which files the tables of a version are written to: those with the same keys to one."""
    found: list[tuple[Keys, list[Any]]] = []
    for table in version.manifest.tables:
        batches = [batch.column(0).to_numpy().view(np.uint64) for batch in version.rows(table.name, ["key"])]
        keys = np.concatenate([np.empty(0, np.uint64), *batches])
        same = next((tables for known, tables in found if np.array_equal(known, keys)), None)
        if same is None:
            found.append((keys, same := []))
        same.append(table)
    files = []
    for number, (keys, tables) in enumerate(found):
        columns: list[RowColumn] = []
        for table in tables:
            for name in ("w", OFFERED):
                floats = table.dim if name == "w" else table.columns.get(name, 0)
                if floats:
                    columns.append(RowColumn(table.name, name, sum(c.floats for c in columns), floats))
        files.append(FileOfTables("rows.bin" if not number else f"rows.{tables[0].name}.bin", keys, tuple(columns)))
    return files


def absent_of(files: Sequence[FileOfTables]) -> int:
    """Return a key that none has."""
    return unused([file.keys for file in files])


def write_files(
    version: Version,
    files: Sequence[FileOfTables],
    folder: Path,
    half: bool,
    absent: int,
    written: SomeRows,
    exact: SomeRows,
) -> list[StoredRows]:
    """Write the rows of a version, and give those that are wanted to `written`, as precise as they are in the files, and to
    `exact`, as they are in the version.

    Raises:
        ModelError: a key finds no place, or a file of the version is damaged.
        OSError: a file cannot be written.
    """

    def write(file: FileOfTables) -> StoredRows:
        def fill(place: NDArray[np.int64], rows: NDArray[Any]) -> None:
            for table in dict.fromkeys(column.table for column in file.columns):
                own, at = [column for column in file.columns if column.table == table], 0
                for batch in version.rows(table, ["key", *(column.column for column in own)]):
                    keys = batch.column(0).to_numpy().view(np.uint64)
                    for column, array in zip(own, batch.columns[1:], strict=True):
                        exactly = values(array).reshape(-1, column.floats).astype(np.float32)
                        floats = exactly.astype(rows.dtype)
                        rows[place[at : at + len(keys)], column.first : column.first + column.floats] = floats
                        written.take(column, keys, floats.astype(np.float32))
                        exact.take(column, keys, exactly)
                    at += len(keys)

        return StoredRows(file.file, write_rows(folder / file.file, file.keys, file.width, half, absent, fill))

    return [write(file) for file in files]


def dense_of(version: Version) -> dict[str, Array]:
    """Return the dense parameters that predictions need."""
    unused_ones = version.manifest.train_only
    stored = read_dense(version.stored("dense"), "w")
    return {name: jnp.asarray(array) for (name, _), array in stored.items() if name not in unused_ones}
