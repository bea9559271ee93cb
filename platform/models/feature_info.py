"""The slots of a version: how many features each has, how often they occur, and how large their weights are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...algorithms.graphs.limbs import TABLE
from ...warehouse.entries import SlotEntry, TableEntry
from ...warehouse.version import Version
from .weights import Relation, magnitude, weights

if TYPE_CHECKING:
    from ..engines.base import Engine

SCHEMA = pa.schema(
    [
        ("slot", pa.string()),
        ("kind", pa.string()),
        ("features", pa.int64()),
        ("coverage", pa.float64()),
        ("mean_abs_weight", pa.float64()),
        ("updates", pa.int64()),
    ]
)
COUNTED = "CAST(slot AS INT) AS slot, count(*) AS features, sum(CAST(`count` AS BIGINT)) AS occurrences"


def feature_info(version: Version, engine: Engine) -> pa.Table:
    """Return one row per slot that has rows of its own, in the order of the training query.

    Columns: slot, kind, features (keys), coverage (occurrences per example learned from, by this version and its ancestors),
    mean_abs_weight (of vectors: the norm), updates. A model of several tables is counted by its first, and weighed by it.
    """
    slots = [slot for slot in version.manifest.slots if slot.share is None]
    with weights(version, engine) as relation:
        counted = _counted(relation, version.manifest.tables[0], engine)
    examples = version.manifest.learned.examples_total
    return pa.Table.from_pylist([_row(slot, counted.get(slot.number, {}), examples) for slot in slots], SCHEMA)


def _counted(relation: Relation, table: TableEntry, engine: Engine) -> dict[int, dict[str, Any]]:
    size = "CAST(NULL AS DOUBLE)" if table.name == TABLE else magnitude(table)
    query = (
        f"SELECT {COUNTED}, avg({size}) AS mean_abs_weight, sum(CAST(updates AS BIGINT)) AS updates "
        f"FROM {relation.views[table.name]} GROUP BY slot"
    )
    return {row["slot"]: row for batch in engine.reader(query) for row in batch.to_pylist()}


def _row(slot: SlotEntry, counted: dict[str, Any], examples: int) -> dict[str, Any]:
    return {
        "slot": slot.name,
        "kind": slot.kind,
        "features": counted.get("features", 0),
        "coverage": int(counted.get("occurrences", 0)) / examples if examples else None,
        "mean_abs_weight": counted.get("mean_abs_weight"),
        "updates": counted.get("updates", 0),
    }
