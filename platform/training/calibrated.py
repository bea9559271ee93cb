"""Calibrators of a training: what is asked of it, and what its version keeps."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...algorithms.calibration import BINS
from ...warehouse.calibration import CALIBRATION, read_table, write_table
from ...warehouse.entries import CalibratorEntry
from .clauses.calibrate import CALIBRATE
from .metrics.calibrate import Calibration, Fitted, OctaveTally
from .metrics.observed import Observations, Observed

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.version import Version
    from ..input.columns import Columns
    from .prepared import Prepared

BIN, VALUE = "bin", "value"


def asked_of(prepared: Prepared) -> Observations:
    """Return what a training observes of its batches."""
    calibrate, columns = prepared.plan.clause(CALIBRATE), prepared.columns
    if calibrate is None:
        return Observations()
    line, parent = line_of(columns, calibrate.by), prepared.parent
    before = None if parent is None or not parent.manifest.calibrators else tally_of(parent, columns, calibrate.by)
    asked = Calibration(calibrate.method, line, len(columns.labels), prepared.recipe.algorithm.late, before)
    return Observations(asked, tuple(itertools.accumulate(prepared.batches, initial=0))[:-1])


def line_of(columns: Columns, by: tuple[str, ...]) -> int | None:
    """Return the place of the column that has biases among the slots of one value; None: none has."""
    names = [slot.name.lower() for slot in columns.scalar]
    return names.index(by[0].lower()) if by else None


def tally_of(version: Version, columns: Columns, by: tuple[str, ...]) -> OctaveTally | None:
    """Return what a version's calibrators were fitted from, halved; None where it keeps none, or of other labels.

    Raises:
        ModelError: its file is damaged.
    """
    files, labels = version.stored("calibration"), columns.labels
    if not files or version.manifest.roles.labels != labels:
        return None
    table = read_table(files[0])
    kind, label, key = (table[name].to_numpy(zero_copy_only=False) for name in ("kind", "label", "key"))
    sums = np.stack([table[name].to_numpy() for name in ("rows", "labels", "predictions")])
    bins = np.zeros((len(labels), 3, BINS), np.int64)
    binned = kind == BIN
    bins[label[binned], :, key[binned]] = sums[:, binned].T
    same = CALIBRATE.kept(version.manifest)
    valued = ~binned & (same is not None and tuple(map(str.lower, same.by)) == tuple(map(str.lower, by)))
    keys, place = np.unique(key[valued].view(np.uint64), return_inverse=True)
    values = np.zeros((len(labels), 3, len(keys)), np.int64)
    values[label[valued], :, place] = sums[:, valued].T
    return OctaveTally(-1, bins, keys, values).halved()


def kept_of(observed: Observed, labels: tuple[str, ...], draft: Draft) -> tuple[CalibratorEntry, ...]:
    """Write what a version's calibrators were fitted from, and their biases, and return their curves; none where none are."""
    if observed.calibrating is None:
        return ()
    known, fitted = observed.calibrating.fitted()
    write_table(draft.calibration, table_of(known, fitted))
    return tuple(
        CalibratorEntry(label, one.curve.method, tuple(one.curve.at.tolist()), tuple(one.curve.to.tolist()), one.curve.slope)
        for label, one in zip(labels, fitted, strict=True)
    )


def table_of(known: OctaveTally, fitted: tuple[Fitted, ...]) -> pa.Table:
    """Return tallies and biases as a version keeps them."""
    parts = []
    for label, one in enumerate(fitted):
        filled = np.flatnonzero(known.bins[label, 0])
        bias = np.full(len(known.keys), np.nan)
        bias[np.searchsorted(known.keys, one.biases.keys)] = one.biases.values
        for kind, key, sums, biases in (
            (BIN, filled, known.bins[label][:, filled], np.full(len(filled), np.nan)),
            (VALUE, known.keys.view(np.int64), known.values[label], bias),
        ):
            arrays = [np.full(len(key), label, np.int32), [kind] * len(key), key, *sums]
            columns = [pa.array(values, field.type) for values, field in zip(arrays, CALIBRATION, strict=False)]
            parts.append(pa.table([*columns, pa.array(biases, mask=np.isnan(biases))], schema=CALIBRATION))
    return pa.concat_tables(parts)


def note_of(entries: tuple[CalibratorEntry, ...], method: str) -> str | None:
    """Say that fewer numbers were fitted than the statement asks for; None where all were."""
    less = [entry.label for entry in entries if entry.method != method]
    if not less:
        return None
    return (
        f"{CALIBRATE} fitted a straight line in log odds for {', '.join(less)}, or nothing: a curve takes 1,000 examples of "
        "either label in the second half of the first pass."
    )


def shift_of(negatives_kept: float | None) -> float:
    """Return what is added to log odds where the query keeps a share of the rows of label 0.

    Source: He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014, section 6.3.
    """
    return 0.0 if negatives_kept is None else math.log(negatives_kept)
