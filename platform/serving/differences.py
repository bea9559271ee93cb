"""The keys of rows that differ between two encodings, as keys_of gives them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

DIFFERENCES = (
    ("keys_missing", pa.list_(pa.int64())),
    ("keys_extra", pa.list_(pa.int64())),
    ("slots_that_differ", pa.list_(pa.string())),
)
"""Columns of differences: keys that exist only offline, keys that were only served, and their slots."""

Numbers = NDArray[np.int64]


class Flat(NamedTuple):
    """The keys of rows, one after the other: the row, the number of the slot, and the key of each; int64[k]."""

    rows: Numbers
    slots: Numbers
    keys: Numbers


def differences(served: pa.MapArray, offline: pa.MapArray) -> list[pa.Array]:
    """Return the columns of DIFFERENCES, for as many rows.

    Args:
        served, offline: map<string, array<bigint>> by slot; a repeated key counts as often as it occurs.
    """
    names = pa.concat_arrays([served.keys, offline.keys]).dictionary_encode().dictionary
    one, other = flat(served, names), flat(offline, names)
    rows, slots, keys = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    sides = np.repeat([-1, 1], [len(one.keys), len(other.keys)])
    order = np.lexsort((keys, slots, rows))
    rows, slots, keys, sides = rows[order], slots[order], keys[order], sides[order]
    fresh = (
        np.append(True, (np.diff(rows) != 0) | (np.diff(slots) != 0) | (np.diff(keys) != 0))
        if len(rows)
        else np.empty(0, np.bool_)
    )
    starts = np.flatnonzero(fresh)
    net = np.add.reduceat(sides, starts) if len(starts) else np.empty(0, np.int64)
    rows, slots, keys = rows[starts], slots[starts], keys[starts]
    missing, extra, differs = net > 0, net < 0, net != 0
    first = np.append(True, (np.diff(rows[differs]) != 0) | (np.diff(slots[differs]) != 0))[: differs.sum()]
    named = names.take(pa.array(slots[differs][first]))
    count = len(offline)
    return [
        lists(pa.array(keys[missing]), rows[missing], count),
        lists(pa.array(keys[extra]), rows[extra], count),
        lists(named, rows[differs][first], count),
    ]


def flat(maps: pa.MapArray, names: pa.Array) -> Flat:
    """Return the keys of a column, one after the other; a NULL has none.

    Args:
        names: of slots, by their numbers.
    """
    entries = np.diff(maps.offsets.to_numpy())
    if maps.null_count:
        entries = np.where(maps.is_valid().to_numpy(zero_copy_only=False), entries, 0)
        maps = pa.array(maps.to_pylist(), maps.type)  # values behind a NULL are dropped
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    numbers = pc.index_in(maps.keys.slice(first, last - first), names).to_numpy(zero_copy_only=False)
    items = maps.items.slice(first, last - first)
    sizes = items.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.repeat(np.arange(len(maps)), entries), sizes)
    keys = items.flatten().to_numpy(zero_copy_only=False)
    return Flat(rows.astype(np.int64), np.repeat(numbers, sizes).astype(np.int64), keys.astype(np.int64))


def lists(values: pa.Array, rows: Numbers, count: int) -> pa.ListArray:
    """Return values as lists of the rows that they belong to, which ascend."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
