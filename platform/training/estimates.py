"""Estimates of a training's time and memory, from the beginning of its input."""

from __future__ import annotations

import itertools
import math
import resource
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.blocks.histories import HISTORIES
from ...algorithms.chunk import Chunk
from ...algorithms.graphs.limbs import NODE
from ...warehouse.entries import Split
from ..engines.base import Scan
from ..engines.repeats import expanded
from ..input.columns import Columns
from ..input.encoder import Encoder
from ..input.splits import CHUNK_ROWS
from ..ps.compiled.table_programs import Programs
from ..ps.dense import size
from ..ps.keys import feature_keys
from .recipe import Recipe

ROW_OVERHEAD_BYTES = 16
STATISTICS_BYTES = 22
FEATURE_ROWS = 32_768
GROWTH = 0.7  # of the number of vertices, as a power of the number of edges
NUMBERS = 1 << 16  # of slots
PEAK_UNIT = 1 if sys.platform == "darwin" else 1024


class Cost(NamedTuple):
    """What a training takes.

    Attributes:
        seconds: of one pass by one worker, or of all where all examples are learned at once; without the compilation of
            programs, which a cache keeps from the sample on.
        features: of all examples.
        size: bytes of memory.
        once: seconds that a training takes beside its passes: its first batches, which trace programs, and writing its rows.
    """

    seconds: float
    features: int
    size: int
    once: float = 0.0


def row_bytes(programs: Programs) -> int:
    """Return the bytes per feature that a table takes in memory, index included where its rows are its own."""
    own = 0 if programs.joins else ROW_OVERHEAD_BYTES + STATISTICS_BYTES
    return own + 4 * sum(programs.dims.values())


def estimated_features(
    examples: int, scan: Scan, splits: Sequence[Split], columns: Columns, encoder: Encoder, most: float = math.inf
) -> int:
    """Return about how many features an input has, extrapolated from how the number of each slot grows in its first rows.

    The number of distinct values among n grows like a power of n, which no slot's is above one.

    Args:
        examples: how many rows are learned.
        most: of a slot.

    Source: Heaps, Information Retrieval: Computational and Theoretical Aspects, 1978, section 7.5.
    """
    pieces, rows = [], 0
    for table in (table for split in splits for table in scan.read(split, columns.ends or columns.inputs, CHUNK_ROWS)):
        pieces.append(table)
        rows += table.num_rows
        if rows >= FEATURE_ROWS:
            break
    if rows < 2:
        return examples * len(columns.slots)
    table = expanded(pa.concat_tables(pieces)).unify_dictionaries().combine_chunks()
    if columns.ends is not None:
        return grown(table, examples)
    half, chunk = rows // 2, encoder.scored(table)
    distinct, before = (np.bincount(chunk.slots[used(chunk, part)], minlength=NUMBERS) for part in (rows, half))
    power = np.log(np.maximum(distinct, 1) / np.maximum(before, 1)) / np.log(rows / half)
    return int(np.minimum(distinct * max(1.0, examples / rows) ** np.clip(power, 0.0, 1.0), most).sum())


def grown(edges: pa.Table, every: int) -> int:
    """Return about how many vertices so many edges have, of which some are given."""
    keys = [feature_keys(NODE, column.chunk(0)) for column in edges.columns]
    return int(len(np.unique(np.concatenate(keys))) * max(1.0, every / edges.num_rows) ** GROWTH)


def used(chunk: Chunk, rows: int) -> NDArray[np.bool_]:
    """Return which features of a chunk its first rows have."""
    found = np.zeros(len(chunk.keys) + 1, bool)  # the last place is of what is absent, -1
    bags = (bag.codes[: bag.offsets[rows]] for bag in chunk.bags)
    others = (one.features(0, rows)[0] for records in chunk.blocks.values() for one in records)
    for codes in (chunk.scalar[:, :rows], *bags, *others, chunk.dense_codes, chunk.offered_codes):
        found[codes] = True
    return found[:-1]


ENOUGH_GROUPS = 20
FEW = ", and a model learns less of so few than of shuffled rows: sort by request, or raise batch_size"
"""Below so many groups a batch a model finds measurably less, see docs/compact.md."""


def compact_text(
    scan: Scan, splits: Sequence[Split], columns: Columns, encoder: Encoder, batch_size: int, user: Sequence[str]
) -> str | None:
    """Return in how many slots neighbouring rows agree at the beginning of an input, whether a tower is computed once for them,
    and what batches of few groups cost; None where that saves too little.

    Args:
        user: the slots of the tower; see Traits.
    """
    if columns.ends is not None:
        return None
    tables = (table for split in splits for table in scan.read(split, columns.inputs, CHUNK_ROWS) if table.num_rows)
    for table in tables:
        table = table[:FEATURE_ROWS]
        runs = encoder.compacted(encoder.scored(table)).runs
        if runs is None:
            return None
        sequences = sum(len(columns.records(HISTORIES)[number]) for number in runs.histories)
        slots = sum(runs.lines[: len(columns.scalar)]) + len(runs.bags) + sequences
        if not slots:  # the intercept alone
            return None
        rows = table.num_rows / len(runs.starts)
        layout, groups = columns.layout, batch_size / rows
        common = {*itertools.compress(layout.scalar, runs.lines), *(layout.bags[bag] for bag in runs.bags)}
        differs = next((slot for slot in user if slot not in common), None)
        tower = "once a group" if differs is None else f"for each row, as rows of a group differ in {differs}"
        found = (
            f"{slots} of {len(columns.slots)} slots, {rows:.0f} rows a group{f'; tower of the user {tower}' if user else ''}"
        )
        return found if groups >= ENOUGH_GROUPS else f"{found}; {groups:.0f} groups a batch{FEW}"
    return None


def estimated_bytes(recipe: Recipe, features: int) -> int:
    """Return the bytes that the rows of so many features take in all tables, and dense parameters with their optimizer."""
    dense = sum(4 * size(spec) * len(recipe.dense.columns[name]) for name, spec in recipe.dense.specs.items())
    return sum(map(row_bytes, recipe.programs)) * features + dense


def held_bytes() -> int:
    """Return the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT
