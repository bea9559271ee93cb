"""The keys that rows are encoded to, slot by slot, to detect skew between served and offline features."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.blocks.base import Cells
from ..input.columns import Columns
from ..input.encode import encode
from ..input.slot import Slot
from ..input.vocabulary import ABSENT, shown_keys

KEYS = pa.map_(pa.string(), pa.list_(pa.int64()))


def keys_of(table: pa.Table, columns: Columns) -> pa.MapArray:
    """Return the keys of each row by slot, as feature_key(slot, value): map<string, array<bigint>>.

    Of a continuous slot, a vector and an array of vectors it is the bits of the values as FLOAT. Absent values have none.

    Args:
        table: has the columns of `columns.inputs`.
    """
    chunk, rows = encode(table, columns, with_labels=False), table.num_rows
    keys = chunk.keys.view(np.int64)
    by_slot: dict[str, pa.ListArray] = {}
    for slot, codes in zip(columns.scalar, chunk.scalar, strict=False):
        there = codes != ABSENT
        by_slot[slot.name] = lists(shown_keys(keys[codes[there]], slot), there.astype(np.int32))
    for slot, bag in zip(columns.bags, chunk.bags, strict=True):
        by_slot[slot.name] = lists(shown_keys(keys[bag.codes], slot), np.diff(bag.offsets))
    for block, records in columns.blocks:
        for record, own in zip(records, chunk.block(block), strict=True):
            for (slot, _), cells in zip(record, own.cells(), strict=True):
                by_slot[slot.name] = cells_of(cells, keys, slot)
    at = 0
    for slot in (*columns.continuous, *columns.vectors):
        lines = chunk.dense[at : at + (slot.dim or 1)].T
        there = ~np.isnan(lines)
        by_slot[slot.name] = lists(bits(lines[there]), there.sum(axis=1))
        at += slot.dim or 1
    return mapped({slot.name: by_slot[slot.name] for slot in columns.slots}, rows)


def cells_of(cells: Cells, keys: NDArray[np.int64], slot: Slot) -> pa.ListArray:
    """Return the keys, or the bits, of the values of a block's slot that are there."""
    rows, features = len(cells.offsets) - 1, cells.values.dtype == np.int32
    there = cells.values != ABSENT if features else ~np.isnan(cells.values)
    each_has = np.diff(cells.offsets) * math.prod(cells.values.shape[1:])
    row, found = np.repeat(np.arange(rows), each_has)[there.reshape(-1)], cells.values[there]
    return lists(shown_keys(keys[found], slot) if features else bits(found), np.bincount(row, minlength=rows))


def bits(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the bits of floats; both zeros are one."""
    return (values + np.float32(0)).view(np.int32).astype(np.int64)


def lists(values: NDArray[np.int64], counts: NDArray[np.integer]) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def mapped(by_slot: dict[str, pa.ListArray], rows: int) -> pa.MapArray:
    """Return columns of lists as one column of maps."""
    slots = len(by_slot)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * slots)
    if not slots:
        return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.list_(pa.int64())))
    by_row = np.arange(slots * rows).reshape(slots, rows).T.reshape(-1)
    names = pa.array(list(by_slot)).take(pa.array(np.tile(np.arange(slots), rows)))
    return pa.MapArray.from_arrays(offsets, names, pa.concat_arrays(list(by_slot.values())).take(pa.array(by_row)))
