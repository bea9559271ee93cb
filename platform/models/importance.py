"""Feature importance from a version's weights, without data: how much each slot adds to scores, whatever the sign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...algorithms.learner import Learner
from ...warehouse.package import read_package
from ..input.columns import INTERCEPT_KIND, columns_from
from ..training.packaged.matrix import column_names, starts_of
from ..training.recipe import algorithm_of
from .vertices import refuse_vertices
from .weights import magnitude, weights

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..engines.base import Engine

SCHEMA = pa.schema([("slot", pa.string()), ("kind", pa.string()), ("importance", pa.float64()), ("share", pa.float64())])


def weight_importance(version: Version, engine: Engine) -> pa.Table:
    """Return a row per slot that has rows of its own, the most important first.

    Columns: slot, kind, importance, and its share of the sum over slots. Importance is the mean over examples of the sizes of
    the weights of a slot's features, in the first table of a model of several; of an algorithm of another package, what that
    has gained by the slot.
    """
    refuse_vertices(version.manifest, "ML.FEATURE_IMPORTANCE compares weights")
    learner = algorithm_of(version.manifest).learns.learner
    found = weighed(version, engine) if learner is None else gained(version, learner)
    slots = [slot for slot in version.manifest.slots if slot.share is None and slot.kind != INTERCEPT_KIND]
    rows = [(slot.name, slot.kind, found.get(slot.name, 0.0)) for slot in slots]
    whole = sum(importance for _, _, importance in rows)
    rows.sort(key=lambda row: -row[2])
    shown = [(*row, row[2] / whole if whole else None) for row in rows]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in shown], SCHEMA)


def weighed(version: Version, engine: Engine) -> dict[str, float]:
    """Return the importance of slots by their weights."""
    manifest = version.manifest
    table, names = manifest.tables[0], {slot.number: slot.name for slot in manifest.slots}
    with weights(version, engine) as relation:
        query = (
            f"SELECT CAST(slot AS INT) AS slot, sum(CAST(`count` AS DOUBLE) * {magnitude(table)}) AS size "
            f"FROM {relation.views[table.name]} GROUP BY slot"
        )
        sizes = {row["slot"]: row["size"] for batch in engine.reader(query) for row in batch.to_pylist()}
    examples = max(manifest.learned.examples_total, 1)
    return {names[number]: size / examples for number, size in sizes.items() if number in names}


def gained(version: Version, learner: Learner) -> dict[str, float]:
    """Return the importance of slots as the package computes it."""
    columns = columns_from(version.manifest)
    by_column = learner.importance(read_package(version.stored("package")[0]))
    gains = np.array([by_column.get(name, 0.0) for name in column_names(columns)])
    slots = [slot.name for slot in (*columns.scalar, *columns.offered, *columns.continuous, *columns.vectors)]
    return dict(zip(slots, np.add.reduceat(gains, starts_of(columns)).tolist(), strict=True))
