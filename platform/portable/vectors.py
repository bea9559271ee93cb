"""Vectors with ids in exports: what their networks, which learn no more, make of each, as rows by key.

vectors.<name>.bin    see images/layout.py; its last row, of keys that have no vector, is what the network makes of one that is
                      lacking, and `absent` stands among its keys, with zeros
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Algorithm
from ...algorithms.derived_slots import VECTORS
from ..images.layout import RowColumn, placed, write_rows
from ..images.tables import FileOfTables, training_of
from ..input.columns import Columns
from ..input.side.table import FIRST, LACKING, SideTable
from ..input.side.versions import located
from ..ps.messages import Keys
from .graph import StoredRows
from .interface import OUTPUTS

if TYPE_CHECKING:
    from ...warehouse.version import Version

BLOCK = 1 << 14  # vectors that go through a network at a time


class PortableVectors:
    """The vectors with ids of a version.

    Raises:
        ModelError: a file of them is missing or damaged.
    """

    def __init__(self, version: Version, columns: Columns, algorithm: Algorithm) -> None:
        self._version, self._networks = version, algorithm.sides
        sides = located(columns, version.manifest, version).sides
        self._tables = [SideTable(side) for side in sides]
        self._places, self.files = list[NDArray[np.int32]](), list[FileOfTables]()
        for side, table in zip(sides, self._tables, strict=True):
            keys, places = table.ids()
            dim = next(one.dim for one in algorithm.tables if one.name == VECTORS)
            column = RowColumn(side.name, OUTPUTS, 0, dim)
            self.files.append(FileOfTables(f"vectors.{side.name}.bin", keys, (column,)))
            self._places.append(places)

    def write(self, folder: Path, absent: int, dense: Mapping[str, Any]) -> list[StoredRows]:
        """Write the files.

        Args:
            absent: the key of what is not there.
            dense: the dense parameters.
        """
        stored = []
        for file, table, places, network in zip(self.files, self._tables, self._places, self._networks, strict=True):
            outputs = outputs_of(jax.jit(network.apply), table, dense, file.columns[0].floats)

            def fill(place: NDArray[np.int64], rows: NDArray[Any], of: Any = outputs, which: Any = places) -> None:
                rows[place[:-1]], rows[-1] = of[which + FIRST], of[LACKING]

            keys: Keys = np.append(file.keys, np.array(absent, np.int64).view(np.uint64))
            layout, place = placed(keys, file.columns, False, absent, training_of(self._version))
            write_rows(folder / file.file, layout, keys, place, fill)
            stored.append(StoredRows(file.file, layout))
        return stored


def outputs_of(apply: Any, table: SideTable, dense: Mapping[str, Any], dim: int) -> NDArray[np.float32]:
    """Return what a network makes of each code of a table, float32[FIRST + vectors, dim]."""
    found = np.zeros((FIRST + len(table), dim), np.float32)
    for begin in range(FIRST, len(found), BLOCK):
        codes = np.arange(begin, min(begin + BLOCK, len(found)), dtype=np.int32)
        made = np.asarray(apply(dense, table.values(codes, FIRST + min(BLOCK, len(table)))))
        found[:FIRST], found[codes] = made[:FIRST], made[FIRST : FIRST + len(codes)]
    return found
