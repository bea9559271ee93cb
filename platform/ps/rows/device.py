"""Rows in the memory of a device: the protocol over arrays of JAX, and rows beside it that find no room there.

A row on the device keeps its number until it is evicted or moved to this machine's memory, whose rows have the numbers from
`HOST` on. `DeviceTable` pulls and pushes in one program each; all else goes through the protocol, copies to and from the
device, and is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from .._native import Arguments, unique
from . import held as on_device
from .base import MISSING
from .device_memory import HOST, DeviceMemory, Keys, Numbers, keys_in
from .held import CHANGED, LIVE, MARKS, numbers
from .pending import PendingSnapshot
from .records import KEY, check_listed

NUM_SLICES, SLICE_SHIFT = 1024, 54
MOST_COUNTED = 0xFFFFFFFF


class DeviceRows(DeviceMemory):
    """Rows on a device; see Rows, and for its arguments DeviceMemory."""

    def __len__(self) -> int:
        return self.tally.rows + len(self.beside)

    def lookup(self, keys: Keys) -> Numbers:
        """See Rows."""
        check_listed(keys, "keys", np.uint64)
        rows = self._found(keys)
        if len(self.beside):
            (at,) = (rows == MISSING).nonzero()
            other = self.beside.lookup(keys[at])
            rows[at] = np.where(other == MISSING, MISSING, other | HOST)
        return rows

    def insert(self, keys: Keys) -> tuple[Numbers, NDArray[np.bool_]]:
        """See Rows."""
        check_listed(keys, "keys", np.uint64)
        distinct, at = unique(keys)
        rows = self.lookup(distinct)
        new = rows == MISSING
        fit = np.flatnonzero(new)[: self.room(int(new.sum()))]
        rows[fit] = self._create(distinct[fit])
        (left,) = (rows == MISSING).nonzero()
        if len(left):
            rows[left] = self.beside.insert(distinct[left])[0] | HOST
        created = np.zeros(len(keys), np.bool_)
        created[np.unique(at, return_index=True)[1]] = new
        return rows[at], created

    def evict(self, keys: Keys) -> int:
        """See Rows."""
        check_listed(keys, "keys", np.uint64)
        distinct, _ = unique(keys)
        rows = self._found(distinct)
        there = rows != MISSING
        self._keep(rows[there])
        known = distinct[self.lookup(distinct) != MISSING]
        if there.any():
            self._remove(distinct[there], rows[there])
        self.beside.evict(distinct)
        for gone in self._gone:
            gone.append(known)
        return len(known)

    def pull(self, keys: Keys, arguments: Arguments) -> Numbers:
        """See Rows."""
        rows = self.lookup(keys)
        self.gather_into(rows, arguments)
        return rows

    def gather_into(self, rows: Numbers, arguments: Arguments) -> None:
        """See Rows."""
        for number, (name, _, _) in enumerate(self.fields.columns):
            if name in arguments:
                out = self.fields.inputs(number, arguments[name], len(rows))
                self.gather(rows, [number], [out])
                out[len(rows) :] = 0

    def gather(self, rows: Numbers, columns: Sequence[int], outs: Sequence[NDArray[Any]]) -> None:
        """See Rows."""
        _, other = self._sides(rows)
        fitting = self.fields.fitting(columns, outs, len(rows))
        for column, out in zip(columns, fitting, strict=True):
            out[: len(rows)] = self._column(column, rows)
            if len(other):
                found = np.empty((len(other), out.shape[1]), out.dtype)
                self.beside.gather(rows[other] & ~HOST, [column], [found])
                out[other] = found

    def _sides(self, rows: Numbers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the places of rows that are on the device, and of those beside it.

        Raises:
            IndexError: a row does not exist.
        """
        check_listed(rows, "rows", np.uint32)
        there, beside = rows != MISSING, (rows >= HOST) & (rows != MISSING)
        if (rows[there & ~beside] >= self.tally.end).any() or ((rows[beside] & ~HOST) >= self.beside.end).any():
            raise IndexError("a row does not exist")
        return np.flatnonzero(there & ~beside), np.flatnonzero(beside)

    def scatter(self, rows: Numbers, columns: Sequence[int], values: Sequence[NDArray[Any]]) -> None:
        """See Rows."""
        self.update(rows, columns, values, [], [], [], [])

    def update(
        self,
        rows: Numbers,
        columns: Sequence[int],
        values: Sequence[NDArray[Any]],
        added: Sequence[int],
        amounts: Sequence[int | NDArray[np.uint32]],
        raised: Sequence[int],
        least: Sequence[int | NDArray[np.uint32]],
    ) -> None:
        """See Rows."""
        mine, other = self._sides(rows)
        given = [array[: len(rows)] for array in self.fields.fitting(columns, values, len(rows))]
        sums, floors = (self.fields.counters(*of, len(rows)) for of in ((added, amounts), (raised, least)))
        if len(other):
            parts = [np.ascontiguousarray(array[other]) for array in given]
            more, floor = ([np.ascontiguousarray(of[other]) for _, of in counters] for counters in (sums, floors))
            self.beside.update(np.ascontiguousarray(rows[other] & ~HOST), columns, parts, added, more, raised, floor)
        if not len(mine):
            return
        chosen, where = np.unique(rows[mine], return_inverse=True)
        self._keep(chosen)
        last = np.empty(len(chosen), np.intp)
        last[where] = mine  # of a row that stands twice, the last
        new: dict[int, NDArray[Any]] = {column: array[last] for column, array in zip(columns, given, strict=True)}
        for column, amount in sums:
            total = np.zeros(len(chosen), np.float64)  # exact below 2^53
            np.add.at(total, where, amount[mine])
            before = new.get(column, self._column(column, chosen))[:, 0]
            new[column] = np.minimum(before + total, MOST_COUNTED).astype(np.uint32)[:, None]
        for column, bound in floors:
            floor_of = np.zeros(len(chosen), np.uint32)
            np.maximum.at(floor_of, where, bound[mine])
            new[column] = np.maximum(new.get(column, self._column(column, chosen))[:, 0], floor_of)[:, None]
        self._write(chosen, new)

    def keys(self, slice_begin: int = 0, slice_end: int = NUM_SLICES) -> tuple[Keys, Numbers]:
        """See Rows."""
        if not 0 <= slice_begin <= slice_end <= NUM_SLICES:
            raise ValueError(f"slices must be a range within [0, {NUM_SLICES}), got [{slice_begin}, {slice_end})")
        self.settle()
        if self._sorted is None:
            own, rows = self._scanned(0, self.tally.end)
            order = np.argsort(own)
            self._sorted = own[order], rows[order]
        part = self._within(slice_begin, slice_end)
        found, rows = self._sorted[0][part], self._sorted[1][part]
        other, more = self.beside.keys(slice_begin, slice_end)
        if not len(other):
            return found.copy(), rows.copy()
        every, of_all = np.concatenate([found, other]), np.concatenate([rows, more | HOST])
        order = np.argsort(every)
        return every[order], of_all[order]

    def _within(self, begin: int, end: int) -> slice:
        """Return where the keys of some slices stand among those of the device."""
        assert self._sorted is not None
        bounds = [np.searchsorted(self._sorted[0] >> np.uint64(SLICE_SHIFT), np.uint64(of)) for of in (begin, end)]
        return slice(*map(int, bounds))

    def scan(self, begin: int, end: int) -> tuple[Keys, Numbers]:
        """See Rows; the rows of this machine's memory follow those of the device."""
        last = self.tally.end
        own, rows = self._scanned(min(begin, last), min(end, last))
        other, more = self.beside.scan(max(begin - last, 0), max(end - last, 0))
        return np.concatenate([own, other]), np.concatenate([rows, more | HOST])

    def _scanned(self, begin: int, end: int) -> tuple[Keys, Numbers]:
        rows = np.arange(begin, end, dtype=np.uint32)
        words = np.asarray(on_device.read(self.held.words, numbers(rows)))[: len(rows)]
        live = words[:, MARKS] & LIVE != 0
        return keys_in(words[live]), rows[live]

    def begin_snapshot(self, full: bool, reader: int = 0) -> tuple[Keys, bool]:
        """See Rows."""
        with self.guard:
            if self._taking is not None:
                raise RuntimeError("a snapshot is being taken; take the rest of it, or cancel it")
            self.settle()
            full = full or not self._known[reader]
            self.beside.begin_snapshot(full, reader)
            self._taking = PendingSnapshot(self._marked(LIVE if full else LIVE | CHANGED[reader]), reader)
            self.held = on_device.unmark(self.held, CHANGED[reader])
            gone = np.unique(np.concatenate([np.empty(0, np.uint64), *([] if full else self._gone[reader])]))
            self._gone[reader].clear()
            self._known[reader] = True
            return gone, full

    def _marked(self, marks: int) -> NDArray[np.bool_]:
        """Return which rows have all of some marks."""
        found: NDArray[np.bool_] = np.asarray(on_device.lives(self.held.words))[: self.tally.end, 1] & np.uint32(marks) == marks
        return found

    def pending(self, reader: int) -> int:
        """See Rows."""
        with self.guard:
            self.settle()
            if not self._known[reader]:
                return len(self)
            return int(self._marked(LIVE | CHANGED[reader]).sum()) + self.beside.pending(reader)

    def take(self, outs: NDArray[np.uint8]) -> int:
        """See Rows."""
        with self.guard:
            self.fields.check(outs)
            self.settle()
            if self._taking is None:
                return 0
            taken = self._taking.take(outs, self.records) or self.beside.take(outs)
            if not taken:
                self._taking = None
            return taken

    def cancel_snapshot(self) -> None:
        """See Rows."""
        if self._taking is not None:
            self._known[self._taking.reader], self._taking = False, None
            self.beside.cancel_snapshot()

    def put(self, records: NDArray[np.uint8]) -> None:
        """See Rows."""
        self.fields.check(records)
        whole = self.fields.of(np.ascontiguousarray(records))
        rows, _ = self.insert(np.ascontiguousarray(whole[KEY]))
        columns = range(len(self.fields.columns))
        self.scatter(rows, columns, [np.ascontiguousarray(whole[str(n)]) for n in columns])

    @property
    def layout(self) -> list[tuple[str, str, int, int]]:
        """See Rows."""
        return self.fields.layout

    @property
    def kept_bytes(self) -> int:
        """See Rows."""
        return self.beside.kept_bytes + (0 if self._taking is None else self._taking.num_kept * self.row_bytes)

    @property
    def end(self) -> int:
        """See Rows."""
        return self.tally.end + self.beside.end

    @property
    def row_bytes(self) -> int:
        """See Rows."""
        return self.fields.row_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes on the device and beside it."""
        with self.guard:
            self.settle()
            arrays: list[jax.Array] = jax.tree.leaves(self.held)
            return sum(array.nbytes for array in arrays) + self.beside.memory_bytes
