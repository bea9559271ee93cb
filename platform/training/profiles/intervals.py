"""Conformal intervals of a version's predictions of numbers, from the residuals that it keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....warehouse.calibration import CALIBRATION, read_table
from ...errors import StatementError
from ..metrics.residuals import ROUNDED, ResidualTally, end_of
from .adaptive import MISSES, Known, unshifted

if TYPE_CHECKING:
    from ....algorithms.base import Algorithm
    from ....warehouse.version import Version

RESIDUAL, ERROR, SHIFT = "residual", "error", "shift"
"""Kinds of rows: how far labels and predictions are apart; labels less predictions; what is added to shares of misses."""
MILLIONTHS = 1_000_000


class Width(NamedTuple):
    """The interval of a label's predictions: so far below and above, less than 0 where on the other side; not below `least`."""

    below: float
    above: float
    least: float


def widths_of(version: Version, algorithm: Callable[[], Algorithm], level: float) -> tuple[Width, ...]:
    """Return the intervals of a version's labels that have labels of new rows in that share of cases: as far on both sides, but
    where a quantile is predicted each side by itself misses half of the rest.

    Source: Romano, Patterson and Candès, "Conformalized Quantile Regression", NeurIPS 2019, theorem 2, of each bound.

    Args:
        algorithm: makes the version's, to say why it has none.

    Raises:
        StatementError: its labels are no numbers, or it keeps no residuals, or too few.
        ModelError: its file is damaged.
    """
    manifest = version.manifest
    name = f"Version {manifest.version} of model {manifest.model}"
    if (known := known_of(version)) is None:
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
    sides = len(known.tally.sides)
    share = (1 - level) / sides
    least = 0.0 if manifest.algorithm.options.get("loss") == "poisson" else -math.inf
    found = []
    for label, counts in enumerate(known.tally.counts):
        bins = [known.bin(label, side, share) for side in range(sides)]
        ends = [end_of(one) for one in bins if one is not None]
        if len(ends) < sides:
            raise StatementError(
                f"{name} keeps residuals of {int(counts.sum()):,} rows, and INTERVAL {level:g} takes "
                f"{least_rows(1 - share):,}: the rows of the second half of the first pass count. Ask for a smaller share, or "
                "learn more rows."
            )
        found.append(Width(ends[0], ends[-1], least))
    return tuple(found)


def least_rows(level: float) -> int:
    """Return how many residuals a bound takes."""
    found = max(1, round(level / (1 - level)) - 1)
    while math.ceil((found + 1) * level - ROUNDED) > found:
        found += 1
    return found


def known_of(version: Version) -> Known | None:
    """Return what a version knows of intervals; None where it keeps no residuals.

    Raises:
        ModelError: its file is damaged.
    """
    files = version.stored("calibration")
    table = read_table(files[0]) if files else CALIBRATION.empty_table()
    label, kind, key, rows, value = (
        table[name].to_numpy(zero_copy_only=False) for name in ("label", "kind", "key", "rows", "bias")
    )
    signed = bool((kind == ERROR).any())
    some = kind == (ERROR if signed else RESIDUAL)
    if not some.any():
        return None
    bins, place = np.unique(key[some], return_inverse=True)
    counts = np.zeros((len(version.manifest.roles.labels), len(bins)), np.int64)
    counts[label[some], place] = rows[some]
    known = unshifted(ResidualTally(-1, bins, counts, signed))
    shifted = kind == SHIFT
    shares, place = np.abs(key[shifted]), (key[shifted] < 0).astype(np.int64)
    side = 1 - place if signed else place
    known.shifts[label[shifted], side, np.searchsorted(shares_kept(), shares)] = value[shifted]
    return known


def shares_kept() -> NDArray[np.int64]:
    """Return the shares of misses as keys."""
    found: NDArray[np.int64] = np.rint(MISSES * MILLIONTHS).astype(np.int64)
    return found


def table_of(known: Known) -> pa.Table:
    """Return what a version knows of intervals as it keeps it; the keys of shifts of lower bounds are below 0."""
    label, place = np.nonzero(known.tally.counts)
    bins, counts = known.tally.bins[place], known.tally.counts[label, place]
    shifted, side, share = np.nonzero(known.shifts)
    lower = known.tally.signed & (side == 0)
    keys = np.where(lower, -1, 1) * shares_kept()[share]
    kinds = [ERROR if known.tally.signed else RESIDUAL] * len(label) + [SHIFT] * len(shifted)
    zeros = np.zeros(len(kinds), np.int64)
    shifts = known.shifts[shifted, side, share]
    columns = [
        np.concatenate([label, shifted]).astype(np.int32),
        kinds,
        np.concatenate([bins, keys]),
        np.concatenate([counts, np.zeros(len(shifted), np.int64)]),
        zeros,
        zeros,
        pa.concat_arrays([pa.nulls(len(label), pa.float64()), pa.array(shifts, pa.float64())]),
    ]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, CALIBRATION, strict=True)], CALIBRATION)
