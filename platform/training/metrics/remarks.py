"""Warnings about slots: features that cannot generalise to new examples, or that take most of the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ....algorithms.chunk import Chunk
from ....warehouse.entries import Split
from ....warehouse.version import Version
from ...engines.base import Scan
from ...engines.repeats import flat
from ...input.columns import Columns
from ...input.encoder import Encoder
from ...input.numbers import floats
from ...input.splits import CHUNK_ROWS
from ...input.vocabulary import ABSENT
from .alone import ToldAlone, categories, leak_text, told_alone, told_by_counts

if TYPE_CHECKING:
    from ....algorithms.base import Algorithm

NEAR = 0.9
"""From this share of distinct values on, a slot counts as having one per row; from this share of all features on, as having
most."""
ENOUGH_ROWS = 1000
ENOUGH_FEATURES = 100_000
LABELLED_ROWS = 20_000
"""First rows by which it is judged whether a column alone tells the label."""
MOST_ROWS = 1 << 18
"""How many stored rows are sampled; keys are hashes, so the first rows represent all."""


class SlotCounts(NamedTuple):
    """Features and their occurrences by slot number, a text that says where they were counted, and what slots alone tell of a
    label of 0 or 1, as far as that is known."""

    features: Mapping[int, int]
    occurrences: Mapping[int, int]
    where: str
    alone: Mapping[int, ToldAlone] = {}


def seen_at_first(scan: Scan, splits: Sequence[Split], columns: Columns, encoder: Encoder) -> SlotCounts | None:
    """Count the slots in the first piece of an input; None where filters leave nothing of it."""
    for split in splits:
        with closing(scan.read(split, list(dict.fromkeys([*columns.inputs, *columns.labels[:1]])), CHUNK_ROWS)) as tables:
            for table in tables:
                if table.num_rows:
                    chunk = encoder.scored(table)
                    scalars = [slot.number for slot in columns.scalar]
                    present = (chunk.scalar[: len(scalars)] != ABSENT).sum(axis=1)
                    occurrences = dict(zip(scalars, present.tolist(), strict=True))
                    where = f"the first {table.num_rows:,} rows"
                    return SlotCounts(counted(chunk.slots), occurrences, where, alone_at_first(table, chunk, columns))
    return None


def alone_at_first(table: pa.Table, chunk: Chunk, columns: Columns) -> dict[int, ToldAlone]:
    """Return what slots alone tell of the label in the first rows; nothing where it is not 0 or 1."""
    if len(columns.labels) != 1 or columns.classes is not None:
        return {}
    labels = floats(flat(table.column(columns.labels[0])).slice(0, LABELLED_ROWS)).astype(np.float64)
    if not np.isin(labels, (0.0, 1.0)).all():
        return {}
    codes = categories(chunk, columns)
    told = {slot.number: told_alone(codes[slot.name][: len(labels)], labels) for slot in columns.scalar}
    return {number: one for number, one in told.items() if one is not None}


def seen_in(version: Version, passes: int) -> SlotCounts:
    """Count the slots in a version's rows, or in the first of them where they are many.

    Args:
        passes: how often each example was learned from.
    """
    slots, counts, found = [np.empty(0, np.uint16)], [np.empty(0, np.int64)], 0
    shown, clicked = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for batch in version.rows(version.manifest.tables[0].name, ["slot", "count", "shows", "clicks"]):
        slots.append(batch["slot"].to_numpy())
        counts.append(batch["count"].to_numpy().astype(np.int64))
        shown.append(batch["shows"].to_numpy().astype(np.int64))
        clicked.append(batch["clicks"].to_numpy().astype(np.int64))
        found += batch.num_rows
        if found >= MOST_ROWS:
            break
    every, occurred = np.concatenate(slots), np.concatenate(counts)
    sums = {number: int(occurred[every == number].sum()) // passes for number in np.flatnonzero(np.bincount(every)).tolist()}
    where = "the examples" if found < MOST_ROWS else f"the examples, by the first {found:,} rows of the model"
    alone = told_by_counts(every, np.concatenate(shown), np.concatenate(clicked))
    return SlotCounts(counted(every), sums, where, alone)


def counted(slots: np.ndarray) -> dict[int, int]:
    """Return how often each number occurs."""
    counts = np.bincount(slots)
    present = np.flatnonzero(counts)
    return dict(zip(present.tolist(), counts[present].tolist(), strict=True))


def remarks(columns: Columns, seen: SlotCounts | None, algorithm: Algorithm) -> list[str]:
    """Return the warnings about slots, each with a remedy. Slots that only later examples see may tell the label."""
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
    warnings += [
        leak_text(slot.name, seen.alone[slot.number], slot.members)
        for slot in columns.scalar
        if slot.number in seen.alone and seen.alone[slot.number].leaks and slot.name not in algorithm.traits.later
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
