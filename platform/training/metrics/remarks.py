"""Warnings about slots: features that cannot generalise to new examples, or that take most of the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from ....warehouse.entries import Split
from ....warehouse.version import Version
from ...engines.base import Scan
from ...input.columns import Columns
from ...input.encoder import Encoder
from ...input.splits import CHUNK_ROWS
from ...input.vocabulary import ABSENT

NEAR = 0.9
"""From this share of distinct values on, a slot counts as having one per row; from this share of all features on, as having
most."""
ENOUGH_ROWS = 1000
ENOUGH_FEATURES = 100_000
MOST_ROWS = 1 << 18
"""How many stored rows are sampled; keys are hashes, so the first rows represent all."""


class SlotCounts(NamedTuple):
    """Features and their occurrences by slot number, and a text that says where they were counted."""

    features: Mapping[int, int]
    occurrences: Mapping[int, int]
    where: str


def seen_at_first(scan: Scan, splits: Sequence[Split], columns: Columns, encoder: Encoder) -> SlotCounts | None:
    """Count the slots in the first piece of an input; None where filters leave nothing of it."""
    for split in splits:
        with closing(scan.read(split, columns.inputs, CHUNK_ROWS)) as tables:
            for table in tables:
                if table.num_rows:
                    chunk = encoder.scored(table)
                    scalars = [slot.number for slot in columns.scalar]
                    present = (chunk.scalar[: len(scalars)] != ABSENT).sum(axis=1)
                    occurrences = dict(zip(scalars, present.tolist(), strict=True))
                    return SlotCounts(counted(chunk.slots), occurrences, f"the first {table.num_rows:,} rows")
    return None


def seen_in(version: Version, passes: int) -> SlotCounts:
    """Count the slots in a version's rows, or in the first of them where they are many.

    Args:
        passes: how often each example was learned from.
    """
    slots, counts, found = [np.empty(0, np.uint16)], [np.empty(0, np.int64)], 0
    for batch in version.rows(version.manifest.tables[0].name, ["slot", "count"]):
        slots.append(batch["slot"].to_numpy())
        counts.append(batch["count"].to_numpy().astype(np.int64))
        found += batch.num_rows
        if found >= MOST_ROWS:
            break
    every = np.concatenate(slots)
    sums = np.bincount(every, np.concatenate(counts)).astype(np.int64) // passes
    where = "the examples" if found < MOST_ROWS else f"the examples, by the first {found:,} rows of the model"
    return SlotCounts(counted(every), dict(enumerate(sums.tolist())), where)


def counted(slots: np.ndarray) -> dict[int, int]:
    """Return how often each number occurs."""
    return {number: count for number, count in enumerate(np.bincount(slots).tolist()) if count}


def remarks(columns: Columns, seen: SlotCounts | None) -> list[str]:
    """Return the warnings about slots, each with a remedy."""
    dates = [slot.name for slot in columns.scalar if slot.type == "date"]
    warnings = [
        f"Slot {name} is a DATE, and each day is a feature of its own: the model has nothing for future days. Select "
        f"dayofweek({name}), month({name}) or the days since an event in its place, or IGNORE it."
        for name in dates
    ]
    if seen is None:
        return warnings
    alone = {slot.name for slot in columns.scalar if slot.name not in dates and one_each(seen, slot.number)}
    warnings += [
        f"Slot {slot.name} has {seen.features[slot.number]:,} features in {seen.occurrences[slot.number]:,} values of "
        f"{seen.where}, nearly one for each: what is learned about one does not help another. IGNORE it, or select what recurs "
        f"of it, such as substring({slot.name}, 1, 4) or hash_bucket({slot.name}, 1000)."
        for slot in columns.scalar
        if slot.name in alone
    ]
    return warnings + [
        f"Slot {slot.name} has {seen.features[slot.number] / total(seen, columns):.0%} of all features of {seen.where}, so it "
        "takes that part of the memory. OPERATORS (admit (min_count = 5)) keeps recurring ones, SHRINK MODEL removes the "
        "others from an existing model."
        for slot in columns.features
        if slot.name not in alone and has_most(seen, slot.number, columns)
    ]


def one_each(seen: SlotCounts, number: int) -> bool:
    """Return whether nearly all values of a slot are distinct."""
    values = seen.occurrences.get(number, 0)
    return values >= ENOUGH_ROWS and seen.features.get(number, 0) >= NEAR * values


def has_most(seen: SlotCounts, number: int, columns: Columns) -> bool:
    """Return whether a slot has nearly all features of a model that has many, and others."""
    every = total(seen, columns)
    return len(columns.features) > 1 and every >= ENOUGH_FEATURES and seen.features.get(number, 0) >= NEAR * every


def total(seen: SlotCounts, columns: Columns) -> int:
    """Return the features of all slots."""
    return sum(seen.features.get(slot.number, 0) for slot in columns.features)
