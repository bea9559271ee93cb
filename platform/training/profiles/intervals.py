"""Conformal intervals of a version's predictions of numbers, from the residuals that it keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ....warehouse.calibration import CALIBRATION, read_table
from ...errors import StatementError
from ..metrics.residuals import ResidualTally, half_width

if TYPE_CHECKING:
    from ....algorithms.base import Algorithm
    from ....warehouse.version import Version

RESIDUAL = "residual"


class Width(NamedTuple):
    """The interval of a label's predictions: so far on both sides, but not below `least`."""

    half: float
    least: float


def widths_of(version: Version, algorithm: Callable[[], Algorithm], level: float) -> tuple[Width, ...]:
    """Return the intervals of a version's labels that have labels of new rows in that share of cases.

    Args:
        algorithm: makes the version's, to say why it has none.

    Raises:
        StatementError: its labels are no numbers, or it keeps no residuals, or too few.
        ModelError: its file is damaged.
    """
    manifest = version.manifest
    name = f"Version {manifest.version} of model {manifest.model}"
    if (known := residuals_of(version)) is None:
        made = algorithm()
        if not made.measured.startswith("numbers") or not manifest.roles.labels:
            raise StatementError(f"INTERVAL is for labels that are numbers, and {manifest.model} has none. Leave it out.")
        why = (
            f"{manifest.algorithm.name} learns all examples at once, so that no prediction was made before its row was "
            "learned: take an algorithm that learns batch by batch"
            if not made.learns.serves
            else "it was trained by an earlier xpsql: CONTINUE or TRAIN it"
        )
        raise StatementError(f"{name} keeps no residuals, from which INTERVAL is cut; {why}.")
    halves = [half_width(known.bins, counts, level) for counts in known.counts]
    if math.inf in halves:
        needed = least_rows(level)
        raise StatementError(
            f"{name} keeps residuals of {int(known.counts[0].sum()):,} rows, and INTERVAL {level:g} takes {needed:,}: the rows "
            "of the second half of the first pass count. Ask for a smaller share, or learn more rows."
        )
    least = 0.0 if manifest.algorithm.options.get("loss") == "poisson" else -math.inf
    return tuple(Width(half, least) for half in halves)


def least_rows(level: float) -> int:
    """Return how many residuals an interval takes."""
    found = max(1, round(level / (1 - level)) - 1)
    while math.ceil((found + 1) * level) > found:
        found += 1
    return found


def residuals_of(version: Version) -> ResidualTally | None:
    """Return the residuals that a version keeps; None where it keeps none.

    Raises:
        ModelError: its file is damaged.
    """
    files = version.stored("calibration")
    table = read_table(files[0]) if files else CALIBRATION.empty_table()
    label, kind, key, rows = (table[name].to_numpy(zero_copy_only=False) for name in ("label", "kind", "key", "rows"))
    some = kind == RESIDUAL
    if not some.any():
        return None
    bins, place = np.unique(key[some], return_inverse=True)
    counts = np.zeros((len(version.manifest.roles.labels), len(bins)), np.int64)
    counts[label[some], place] = rows[some]
    return ResidualTally(-1, bins, counts)


def table_of(known: ResidualTally) -> pa.Table:
    """Return residuals as a version keeps them."""
    label, place = np.nonzero(known.counts)
    zeros = np.zeros(len(label), np.int64)
    columns = [
        label.astype(np.int32),
        [RESIDUAL] * len(label),
        known.bins[place],
        known.counts[label, place],
        zeros,
        zeros,
        pa.nulls(len(label), pa.float64()),
    ]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, CALIBRATION, strict=True)], CALIBRATION)
