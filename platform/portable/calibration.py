"""The file of biases that calibrate the predictions of a graph: one more column of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..images.layout import RowColumn, placed, write_rows
from ..images.tables import FileOfTables, training_of
from ..input.columns import Columns
from ..ps.messages import Keys
from ..training.profiles.calibrators import calibrators_of
from .curves import BIASES
from .graph import StoredRows

if TYPE_CHECKING:
    from ...warehouse.version import Version


class PortableCalibration:
    """What calibrates the predictions of a version.

    Attributes:
        calibrators: None: predictions are what the model says.
        files: of biases, none where no column has any.
    """

    def __init__(self, version: Version, columns: Columns) -> None:
        self._version, self.calibrators = version, calibrators_of(version, columns)
        self.files = list[FileOfTables]()
        self._names = columns.labels
        if self.calibrators is not None and self.calibrators.line is not None:
            self._slot: str | None = columns.scalar[self.calibrators.line].name
            keys = np.unique(np.concatenate([one.biases.keys for one in self.calibrators.labels]))
            column = RowColumn(BIASES, BIASES, 0, len(self.calibrators.labels))
            self.files.append(FileOfTables("biases.bin", keys, (column,)))
        else:
            self._slot = None

    def write(self, folder: Path, absent: int) -> list[StoredRows]:
        """Write the files.

        Args:
            absent: the key of what is not there.
        """
        stored = []
        for file in self.files:
            assert self.calibrators is not None
            biases = np.stack([one.biases.of(file.keys) for one in self.calibrators.labels], axis=1).astype(np.float32)

            def fill(place: NDArray[np.int64], rows: NDArray[Any], of: NDArray[np.float32] = biases) -> None:
                rows[place[:-1]], rows[-1] = of, 0

            keys: Keys = np.append(file.keys, np.array(absent, np.int64).view(np.uint64))
            layout, place = placed(keys, file.columns, False, absent, training_of(self._version))
            write_rows(folder / file.file, layout, keys, place, fill)
            stored.append(StoredRows(file.file, layout))
        return stored

    @property
    def described(self) -> dict[str, Any] | None:
        """The entry of model.json."""
        if self.calibrators is None:
            return None
        curves = [
            {"label": name, "at": one.curve.at.tolist(), "to": one.curve.to.tolist(), "slope": one.curve.slope}
            for name, one in zip(self._names, self.calibrators.labels, strict=True)
        ]
        return {"labels": curves, "biases_of": self._slot, "shift": self.calibrators.labels[0].shift}
