"""Predictions of a version that are calibrated, or corrected for rows that its query left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.calibration import Biases, Calibrator, RisingCurve
from ....warehouse.calibration import read_table
from ..clauses.calibrate import CALIBRATE

if TYPE_CHECKING:
    from ....warehouse.entries import CalibratorEntry
    from ....warehouse.version import Version
    from ...input.batches import Batch
    from ...input.columns import Columns

Floats = NDArray[np.float32]


class Calibrators(NamedTuple):
    """The calibrators of a version's labels.

    Attributes:
        line: the place of the column that has biases among the slots of one value; None: none has.
    """

    labels: tuple[Calibrator, ...]
    line: int | None

    def of(self, predictions: NDArray[np.floating], batch: Batch | None) -> Floats:
        """Return calibrated predictions, float32[n, labels], of a batch, which may be None where no column has biases."""
        keys = None
        if self.line is not None and batch is not None:
            keys = np.append(batch.keys, np.uint64(0))[batch.codes(self.line)]
        return np.stack([one.of(line, keys) for one, line in zip(self.labels, predictions.T, strict=True)], axis=1)


def calibrators_of(version: Version, columns: Columns) -> Calibrators | None:
    """Return what makes a version's predictions; None where they are what the model says.

    Raises:
        ModelError: its file of biases is damaged.
    """
    manifest, kept = version.manifest, version.manifest.settings.get("negatives_kept")
    entries: Sequence[CalibratorEntry | None] = manifest.calibrators or ([None] * len(columns.labels) if kept else [])
    if not entries:
        return None
    asked = CALIBRATE.kept(manifest) if manifest.calibrators else None
    line = None if asked is None else line_of(columns, asked.by)
    biases = {} if line is None else biases_in(version)
    found = []
    for number, entry in enumerate(entries):
        curve = (
            RisingCurve() if entry is None else RisingCurve(np.array(entry.at), np.array(entry.to), entry.slope, entry.method)
        )
        found.append(Calibrator(curve, biases.get(number, Biases()), shift_of(kept)))
    return Calibrators(tuple(found), line)


def biases_in(version: Version) -> dict[int, Biases]:
    """Return the biases that a version keeps, by the number of the label."""
    files = version.stored("calibration")
    if not files:
        return {}
    table = read_table(files[0])
    label, key, bias = (table[name].to_numpy() for name in ("label", "key", "bias"))
    found = {}
    for number in np.unique(label).tolist():
        some = (label == number) & ~np.isnan(bias)
        keys = key[some].view(np.uint64)
        order = np.argsort(keys)
        found[number] = Biases(keys[order], bias[some][order])
    return found


def line_of(columns: Columns, by: tuple[str, ...]) -> int | None:
    """Return the place of the column that has biases among the slots of one value; None: none has."""
    names = [slot.name.lower() for slot in columns.scalar]
    return names.index(by[0].lower()) if by else None


def shift_of(negatives_kept: float | None) -> float:
    """Return what is added to log odds where the query keeps a share of the rows of label 0.

    Source: He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014, section 6.3.
    """
    return 0.0 if negatives_kept is None else math.log(negatives_kept)
