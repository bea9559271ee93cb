"""What a training observes of its batches beside metrics, and what its version keeps of it: calibrators, and a profile."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...algorithms.base import Algorithm
from ...algorithms.calibration import BINS
from ...warehouse.calibration import CALIBRATION, read_table, write_table
from ...warehouse.entries import CalibratorEntry
from .clauses.calibrate import CALIBRATE, Calibrate
from .metrics.calibrate import Calibration, Fitted, OctaveTally
from .metrics.gate import DRIFT, NEW_SHARE
from .metrics.observed import Observations, Observed
from .metrics.profile import EVERY, Profiled
from .profiles.adaptive import adapted
from .profiles.calibrators import line_of, shift_of
from .profiles.drift import drifts, named
from .profiles.intervals import known_of
from .profiles.intervals import table_of as table_of_residuals
from .profiles.stored import Profiles, edges_in, known_in, profiled, profiles_in, profiles_of
from .profiles.stored import table_of as profile_table

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.models import Models
    from ...warehouse.version import Version
    from ..input.columns import Columns

BIN, VALUE = "bin", "value"
SAMPLED_ROWS = 1 << 13


def asked_of(
    algorithm: Algorithm,
    columns: Columns,
    calibrate: Calibrate | None,
    parent: Version | None,
    batches: Sequence[int],
    rows: int,
    negatives_kept: float | None,
) -> Observations:
    """Return what a training observes of its batches.

    Args:
        calibrate: what the statement asks for.
        batches: of each split.
        negatives_kept: the share of the negatives that the rows have.
        rows: of all: 8,192 of them are profiled at least, and of many one batch of EVERY.
    """
    before = tuple(itertools.accumulate(batches, initial=0))[:-1]
    calibration = None if calibrate is None else calibration_of(calibrate, columns, algorithm.late, parent)
    profile, every = profiled_of(algorithm, columns, negatives_kept), max(1, min(EVERY, rows // SAMPLED_ROWS))
    numbers, signed = algorithm.learns.serves and algorithm.measured.startswith("numbers"), "quantile=" in algorithm.measured
    return Observations(calibration, before, profile, every, len(columns.labels) if numbers else 0, signed)


def profiled_of(algorithm: Algorithm, columns: Columns, negatives_kept: float | None) -> Profiled | None:
    """Return what is profiled of rows; None where nothing is learned batch by batch."""
    if not algorithm.learns.serves:
        return None
    labels = len(columns.labels) if algorithm.values else 0
    return profiled(columns, labels, algorithm.measured == "classes", shift_of(negatives_kept))


def calibration_of(calibrate: Calibrate, columns: Columns, late: bool, parent: Version | None) -> Calibration:
    """Return what calibrators are to be fitted."""
    before = None if parent is None or not parent.manifest.calibrators else tally_of(parent, columns, calibrate.by)
    return Calibration(calibrate.method, line_of(columns, calibrate.by), len(columns.labels), late, before)


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


def kept_of(observed: Observed, labels: tuple[str, ...], parent: Version | None, draft: Draft) -> tuple[CalibratorEntry, ...]:
    """Write what a version's calibrators were fitted from, and their biases, or its residuals, and return the curves; none
    where there are none."""
    if observed.calibrating is None:
        if observed.residuals is not None:
            before = None if parent is None or parent.manifest.roles.labels != labels else known_of(parent)
            write_table(draft.calibration, table_of_residuals(adapted(observed.residuals.known(), before)))
        return ()
    known, fitted = observed.calibrating.fitted()
    write_table(draft.calibration, table_of(known, fitted))
    return tuple(
        CalibratorEntry(label, one.curve.method, tuple(one.curve.at.tolist()), tuple(one.curve.to.tolist()), one.curve.slope)
        for label, one in zip(labels, fitted, strict=True)
    )


def profiles_made(columns: Columns, parent: Version | None, observed: Observed) -> Profiles:
    """Return the profiles of the rows that were learned; none where none were made."""
    if observed.profile is None:
        return {}
    edges = {} if parent is None else edges_in(profiles_in(parent))
    return profiles_of(observed.profile.tally(), columns, edges, None if parent is None else known_in(parent))


def keep_profile(profiles: Profiles, draft: Draft) -> None:
    """Write the profiles of a version."""
    if profiles:
        write_table(draft.profile, profile_table(profiles))


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


def drift_before(models: Models, name: str, made: Profiles, back: int | None) -> dict[str, float | None]:
    """Return how far the rows that were learned are from those of an earlier version, as conditions name it.

    Args:
        back: how many steps before the one in training it is, in the line of the served version; None: that one.
    """
    present = {one.number: one for one in models.present(name)}
    before = next((one for one in present.values() if one.served), None)
    for _ in range((back or 1) - 1):
        before = None if before is None else present.get(before.manifest.parent or 0)
    found = [] if before is None else list(drifts(profiles_in(before), made))
    unknown = {f"{DRIFT}({slot.lower()})": None for slot in made}
    return unknown | named(found) | {f"{NEW_SHARE}({slot.lower()})": one.new_share for slot, one in made.items()}
