"""The rows of a version, read once: all into files of rows, and the rows of a few keys into memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...warehouse.dense import read_dense
from ..images.layout import RowColumn, placed, write_rows
from ..images.tables import FileOfTables, fill_from, training_of
from ..ps.messages import NO_MOMENTS, OFFERED, Array, Keys, Pulled, on_device
from .graph import StoredRows

if TYPE_CHECKING:
    from ...warehouse.version import Version

Floats = NDArray[np.float32]


class SomeRows:
    """A version's rows of a few keys, for a Scorer.

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
        """Keep rows whose keys are wanted."""
        place = np.searchsorted(self.keys, keys).clip(max=max(len(self.keys) - 1, 0))
        mine = np.flatnonzero(self.keys[place] == keys) if len(self.keys) else place[:0]
        self._of(column)[place[mine]] = floats[mine]

    def of(self, column: RowColumn, keys: Keys) -> Floats:
        """Return the floats of keys, all of which must be wanted ones."""
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


def write_files(
    version: Version,
    files: Sequence[FileOfTables],
    folder: Path,
    whole: bool,
    half: bool,
    absent: int,
    written: SomeRows,
    exact: SomeRows,
) -> list[StoredRows]:
    """Write the rows of a version, and give those that are wanted to `written`, as precise as they are in the files, and to
    `exact`, as they are in the version.

    Args:
        whole: files have all rows of their tables; else only rows of their keys.

    Raises:
        ModelError: a key finds no place, or a file of the version is damaged.
        OSError: a file cannot be written.
    """

    def take(column: RowColumn, keys: Keys, floats: Floats, as_written: Floats) -> None:
        written.take(column, keys, as_written)
        exact.take(column, keys, floats)

    stored = []
    for file in files:
        layout, place = placed(file.keys, file.columns, half, absent, training_of(version))
        fill = fill_from(version, file.columns, take, None if whole else file.keys)
        write_rows(folder / file.file, layout, file.keys, place, fill)
        stored.append(StoredRows(file.file, layout))
    return stored


def dense_of(version: Version) -> dict[str, Array]:
    """Return the dense parameters that predictions need."""
    unused_ones = version.manifest.train_only
    stored = read_dense(version.stored("dense"), "w")
    return on_device({name: array for (name, _), array in stored.items() if name not in unused_ones})
