"""Rows in a dict: the protocol in its plainest form, one record at a time, without JAX.

Other implementations are tested against it, and the simulation keeps its rows in it; it is much slower than
the native store, whose records have the same layout, so that either takes snapshots of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._native import Arguments
from .base import MISSING, ColumnTypes
from .records import RecordFields, check_listed

NUM_SLICES = 1024
SLICE_SHIFT = 54
MOST_COUNTED = 0xFFFFFFFF

Record: TypeAlias = NDArray[np.void]
"""A row: one element of the record's dtype, whose fields are `key` and the numbers of columns."""


class DictRows:
    """Rows in a dict; see Rows.

    Args:
        columns: name, dtype and elements per row of each.

    Raises:
        ValueError: another dtype, or no elements.
    """

    def __init__(self, columns: ColumnTypes) -> None:
        self._fields = RecordFields(columns)
        self._numbers: dict[int, int] = {}
        self._records: dict[int, Record] = {}
        self._free: list[int] = []
        self._end = 0
        self._changed: tuple[set[int], set[int]] = (set(), set())  # of each reader
        self._gone: tuple[set[int], set[int]] = (set(), set())
        self._pending: dict[int, NDArray[np.uint8]] | None = None  # of a snapshot under way
        self._kept: set[int] = set()  # rows of the snapshot that changed since
        self._reader = 0
        self._known = [False, False]

    def __len__(self) -> int:
        return len(self._numbers)

    def lookup(self, keys: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """See Rows."""
        return np.array([self._numbers.get(key, MISSING) for key in listed(keys, "keys", np.uint64)], np.uint32)

    def insert(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
        """See Rows."""
        created = []
        for key in listed(keys, "keys", np.uint64):
            created.append(key not in self._numbers)
            if created[-1]:
                self._create(key)
        return self.lookup(keys), np.array(created, np.bool_)

    def _create(self, key: int) -> None:
        if not self._free:
            self._free.append(self._end)
            self._end += 1
        row = self._numbers[key] = self._free.pop()
        record = self._records[row] = np.zeros(1, self._fields.dtype)
        record["key"] = key
        self._change(key)

    def evict(self, keys: NDArray[np.uint64]) -> int:
        """See Rows."""
        before = len(self)
        for key in listed(keys, "keys", np.uint64):
            row = self._numbers.pop(key, None)
            if row is not None:
                self._note(key)
                for changed, gone in zip(self._changed, self._gone, strict=True):
                    changed.discard(key)
                    gone.add(key)
                self._free.append(row)
                del self._records[row]
        return before - len(self)

    def pull(self, keys: NDArray[np.uint64], arguments: Arguments) -> NDArray[np.uint32]:
        """See Rows."""
        rows = self.lookup(keys)
        self.gather_into(rows, arguments)
        return rows

    def gather_into(self, rows: NDArray[np.uint32], arguments: Arguments) -> None:
        """See Rows."""
        for number, (name, _, _) in enumerate(self._fields.columns):
            if name in arguments:
                out = self._fields.inputs(number, arguments[name], len(rows))
                self.gather(rows, [number], [out])
                out[len(rows) :] = 0

    def gather(self, rows: NDArray[np.uint32], columns: Sequence[int], outs: Sequence[NDArray[Any]]) -> None:
        """See Rows."""
        found = list(self._found(rows))
        for column, out in zip(columns, self._fields.fitting(columns, outs, len(found)), strict=True):
            for values, record in zip(out, found, strict=False):
                values[:] = 0 if record is None else record[str(column)][0]

    def scatter(self, rows: NDArray[np.uint32], columns: Sequence[int], values: Sequence[NDArray[Any]]) -> None:
        """See Rows."""
        self.update(rows, columns, values, [], [], [], [])

    def update(
        self,
        rows: NDArray[np.uint32],
        columns: Sequence[int],
        values: Sequence[NDArray[Any]],
        added: Sequence[int],
        amounts: Sequence[int | NDArray[np.uint32]],
        raised: Sequence[int],
        least: Sequence[int | NDArray[np.uint32]],
    ) -> None:
        """See Rows."""
        found = list(self._found(rows))
        given = self._fields.fitting(columns, values, len(found))
        sums, floors = (self._fields.counters(*of, len(found)) for of in ((added, amounts), (raised, least)))
        for i, record in enumerate(found):
            if record is None:
                continue
            self._note(int(record["key"][0]))
            for column, new in zip(columns, given, strict=True):
                record[str(column)] = new[i]
            for column, amount in sums:
                record[str(column)] = min(int(record[str(column)][0, 0]) + int(amount[i]), MOST_COUNTED)
            for column, bound in floors:
                record[str(column)] = max(int(record[str(column)][0, 0]), int(bound[i]))

    def keys(self, slice_begin: int = 0, slice_end: int = NUM_SLICES) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """See Rows."""
        if not 0 <= slice_begin <= slice_end <= NUM_SLICES:
            raise ValueError(f"slices must be a range within [0, {NUM_SLICES}), got [{slice_begin}, {slice_end})")
        found = np.array(sorted(key for key in self._numbers if slice_begin <= key >> SLICE_SHIFT < slice_end), np.uint64)
        return found, self.lookup(found)

    def scan(self, begin: int, end: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """See Rows."""
        rows = [row for row in range(begin, min(end, self._end)) if row in self._records]
        return np.array([int(self._records[row]["key"][0]) for row in rows], np.uint64), np.array(rows, np.uint32)

    def begin_snapshot(self, full: bool, reader: int = 0) -> tuple[NDArray[np.uint64], bool]:
        """See Rows."""
        if self._pending is not None:
            raise RuntimeError("a snapshot is being taken; take the rest of it, or cancel it")
        full = full or not self._known[reader]
        # Bytes are copied, since a copy of fields leaves the gaps between them as its memory was.
        wanted = self._numbers if full else self._changed[reader]
        self._pending = {key: self._records[self._numbers[key]].view(np.uint8).copy() for key in wanted}
        gone = np.array([] if full else sorted(self._gone[reader]), np.uint64)
        self._changed[reader].clear()
        self._gone[reader].clear()
        self._reader, self._known[reader] = reader, True
        return gone, full

    def pending(self, reader: int) -> int:
        """See Rows."""
        return len(self._changed[reader]) if self._known[reader] else len(self)

    def take(self, outs: NDArray[np.uint8]) -> int:
        """See Rows."""
        self._fields.check(outs)
        taken = 0
        while self._pending and taken < len(outs):
            key, record = self._pending.popitem()
            self._kept.discard(key)
            outs[taken] = record
            taken += 1
        if not taken:
            self._pending = None
        return taken

    def cancel_snapshot(self) -> None:
        """See Rows."""
        if self._pending is not None:
            self._pending, self._known[self._reader] = None, False
            self._kept.clear()

    def put(self, records: NDArray[np.uint8]) -> None:
        """See Rows."""
        self._fields.check(records)
        whole = self._fields.of(np.ascontiguousarray(records))
        rows, _ = self.insert(np.ascontiguousarray(whole["key"]))
        for i, row in enumerate(rows.tolist()):
            self._note(int(whole["key"][i]))
            self._records[row][:] = whole[i]

    @property
    def layout(self) -> list[tuple[str, str, int, int]]:
        """See Rows."""
        return self._fields.layout

    @property
    def kept_bytes(self) -> int:
        """See Rows."""
        return len(self._kept) * self.row_bytes

    @property
    def end(self) -> int:
        """See Rows."""
        return self._end

    @property
    def row_bytes(self) -> int:
        """See Rows."""
        return self._fields.row_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of records, including records of a running snapshot."""
        return (len(self._records) + len(self._pending or ())) * self.row_bytes

    def _note(self, key: int) -> None:
        """Note that a row is about to change."""
        self._change(key)
        if self._pending is not None and key in self._pending:
            self._kept.add(key)

    def _change(self, key: int) -> None:
        for changed in self._changed:
            changed.add(key)

    def _found(self, rows: NDArray[np.uint32]) -> Iterator[Record | None]:
        """Yield the records of rows, None for MISSING."""
        for row in listed(rows, "rows", np.uint32):
            if row != MISSING and row not in self._records:
                raise IndexError(f"row {row} does not exist")
            yield self._records.get(row)


def listed(values: NDArray[Any], name: str, dtype: type[np.generic]) -> list[int]:
    """Return the values of an array as integers.

    Raises:
        TypeError: it is of another dtype.
        ValueError: it does not have exactly one dimension.
    """
    check_listed(values, name, dtype)
    found: list[int] = values.tolist()
    return found
