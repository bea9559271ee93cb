"""The memory of rows on a device: room for more, and rows that move to this machine's memory and back."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from .._native import Store
from . import held as on_device
from .base import MISSING, ColumnTypes
from .held import CHANGED, FRESH, HIGH, LIVE, LOW, MARKS, OWN, Held, RowTally, counted, halves, longer, numbers, wanted
from .pending import PendingSnapshot
from .records import KEY, RecordFields

HOST = np.uint32(1 << 31)
"""The numbers of rows in this machine's memory begin here."""
FIRST_ROWS, MANY_ROWS = 1 << 16, 1 << 22
"""So many there is room for at first, and so many from which on it doubles."""
ROWS_A_BUCKET = 8
"""So full are buckets at most."""
MOST_TRIES = 4  # to find places for all rows of a batch
SHARE_MOVED = 8
"""A part of so many of the rows is moved at once where there is no room for more."""

Numbers = NDArray[np.uint32]
Keys = NDArray[np.uint64]


class Unsettled(NamedTuple):
    """A push whose end was not waited for; see DeviceMemory.pushed."""

    tally: RowTally
    keys: Keys
    left: jax.Array
    words: jax.Array
    floats: tuple[jax.Array, ...]


class DeviceMemory:
    """Rows on a device, and rows beside it, by number.

    Args:
        columns: name, dtype and elements per row of each.
        device: JAX's.
        most_bytes: granted on the device; None: no limit.
        rows: that there is room for at first.

    Attributes:
        fields: of a record.
        floats: the columns of floats, in order.
        words: the other columns, and where each begins among the words of a row.
        held: its arrays, which programs take and give.
        beside: rows in this machine's memory.
        guard: held while arrays are read that a pull or a push may replace.
        clock: a number that grows with each push.
        moved: how many rows went to this machine's memory so far.

    Raises:
        ValueError: another dtype, or no elements.
    """

    def __init__(self, columns: ColumnTypes, device: jax.Device, most_bytes: int | None = None, rows: int = FIRST_ROWS) -> None:
        self.fields = RecordFields(columns)
        self._device = device
        self._most_bytes = most_bytes
        self.floats = [n for n, (_, dtype, _) in enumerate(columns) if dtype == "float32"]
        self.words: dict[int, int] = {}
        at = OWN
        for number, (_, dtype, dim) in enumerate(columns):
            if dtype != "float32":
                self.words[number] = at
                at += dim
        self._shape = at - OWN, [columns[n][2] for n in self.floats]
        self.held: Held = jax.device_put(on_device.new(rows // ROWS_A_BUCKET, rows, *self._shape), device)
        self.guard = threading.RLock()
        self._tally = RowTally(0, 0, 0)
        self._unsettled: Unsettled | None = None
        self.beside = Store(columns)
        self.clock, self.moved = 1, 0
        self._gone: tuple[list[Keys], list[Keys]] = ([], [])
        self._known = [False, False]
        self._taking: PendingSnapshot | None = None
        self._sorted: tuple[Keys, Numbers] | None = None

    @property
    def tally(self) -> RowTally:
        """How many rows it has."""
        self.settle()
        return self._tally

    def settle(self) -> None:
        """Wait for the last push, and take new rows that found no place in the index into this machine's memory."""
        with self.guard:
            if (last := self._unsettled) is None:
                return
            self._unsettled = None
            tally, some = jax.device_get((last.tally, last.left.any()))
            self._tally = RowTally(*map(int, tally))
            if some:
                (at,) = np.asarray(last.left)[: len(last.keys)].nonzero()
                self.beside.put(self._recorded(np.asarray(last.words)[at], [np.asarray(of)[at] for of in last.floats]))

    def changing(self, keys: Keys) -> None:
        """Copy rows of keys that a snapshot under way still has to take; they change next."""
        if self._taking is not None:
            rows = self._found(keys)
            self._keep(rows[rows != MISSING])

    def pushed(
        self, held: Held, tally: RowTally, keys: Keys, left: jax.Array, words: jax.Array, floats: tuple[jax.Array, ...]
    ) -> None:
        """Take the state that the program of a push returns.

        Args:
            tally: of that program.
            keys: of the push.
            left: bool[size], new keys that found no place in the index.
            words, floats: uint32[size, k], float32[size, dim] each: what was stored of all keys.
        """
        self.clock += 1
        self._sorted = None
        self.held, self._unsettled = held, Unsettled(tally, keys, left, words, floats)

    def _found(self, keys: Keys) -> Numbers:
        """Return the rows of keys on the device."""
        self.settle()
        return np.array(on_device.find(self.held.places, halves(keys)))[: len(keys)]

    def _create(self, keys: Keys) -> Numbers:
        """Return new rows of keys, for which there is room; MISSING where a key finds no place."""
        if not len(keys):
            return np.empty(0, np.uint32)
        self._sorted = None
        self.held, rows, left, tally = on_device.create(self.held, halves(keys), wanted(len(keys)), self.clock, self.tally)
        self._tally = counted(tally)
        made: Numbers = np.where(np.asarray(left), MISSING, np.asarray(rows))[: len(keys)]
        return made

    def room(self, n: int) -> int:
        """Make room for so many more rows, as far as memory is granted, and return for how many there is."""
        taken, capacity = self.tally.end - self.tally.free, len(self.held.words)
        while taken + n > capacity and (larger := self._larger(capacity)):
            capacity = larger
        if capacity > len(self.held.words):
            self.held = on_device.widened(self.held, capacity)
            self._spread(capacity // ROWS_A_BUCKET)
        return max(0, min(n, capacity - self.tally.end + self.tally.free))

    def _larger(self, capacity: int) -> int:
        """Return the next larger capacity that is granted, 0 where there is none; few sizes, as each compiles programs."""
        times = (4, 2) if capacity < MANY_ROWS else (2,)
        granted = (by * capacity for by in times if self._granted(by * capacity // ROWS_A_BUCKET, by * capacity))
        return next(granted, 0)

    def _spread(self, buckets: int) -> None:
        """Make the index larger; rows that find no place in it move to this machine's memory."""
        if buckets > len(self.held.places):
            index, left = on_device.indexed(self.held.words, buckets)
            self.held = self.held._replace(places=index)
            self._move(np.flatnonzero(np.asarray(left)).astype(np.uint32))

    def _granted(self, buckets: int, capacity: int) -> bool:
        needed = on_device.size_in_bytes(buckets, capacity, *self._shape)
        return self._most_bytes is None or needed <= self._most_bytes

    def bring(self, keys: Keys) -> bool:
        """Have the rows of keys on the device, and room for all others of them, whatever has to leave it.

        Returns:
            Whether there is room.
        """
        n = len(keys)
        if self.room(n) == n and not (len(self.beside) and (self.beside.lookup(keys) != MISSING).any()):
            return True
        self.clock += 1
        self.held = on_device.stamp(self.held, halves(keys), wanted(n), self.clock)
        for _ in range(MOST_TRIES):
            missing = int(np.count_nonzero(self._found(keys) == MISSING))
            if (room := self.room(missing)) < missing:
                self._move(self._oldest(missing - room))
                if self.room(missing) < missing:
                    return False
            if self._bring_back(keys[self._found(keys) == MISSING]):
                return True
            if self._granted(2 * len(self.held.places), len(self.held.words)):
                self._spread(2 * len(self.held.places))
            else:
                self._move(self._oldest(1))
        return False

    def _bring_back(self, keys: Keys) -> bool:
        """Move rows from this machine's memory, those of the keys that have some; return whether all found a place."""
        rows = self.beside.lookup(keys)
        back, rows = keys[rows != MISSING], rows[rows != MISSING]
        if not len(back):
            return True
        values = [np.empty((len(back), dim), dtype) for _, dtype, dim in self.fields.columns]
        self.beside.gather(rows, range(len(values)), values)
        new = self._create(back)
        placed = new != MISSING
        self.beside.evict(back[placed])
        self._write(new[placed], {n: column[placed] for n, column in enumerate(values)}, FRESH)
        return bool(placed.all())

    def _oldest(self, least: int) -> Numbers:
        """Return rows, so many at least where there are, that were not used for longest; none that is in use now."""
        own = np.asarray(on_device.lives(self.held.words))[: self.tally.end]
        (rows,) = ((own[:, 1] & LIVE != 0) & (own[:, 0] != self.clock)).nonzero()
        count = min(len(rows), max(least, self.tally.rows // SHARE_MOVED))
        if not count:
            return np.empty(0, np.uint32)
        chosen = np.argpartition(own[rows, 0], count - 1)[:count]
        oldest: Numbers = rows[chosen].astype(np.uint32)
        return oldest

    def _move(self, rows: Numbers) -> None:
        """Move rows to this machine's memory."""
        if not len(rows):
            return
        self._keep(rows)
        records = self.records(rows)
        self.beside.put(records)
        self.moved += len(rows)
        self._remove(np.ascontiguousarray(self.fields.of(records)[KEY]), rows)

    def _remove(self, keys: Keys, rows: Numbers) -> None:
        self._sorted = None
        self.held, tally = on_device.remove(self.held, halves(keys), numbers(rows), self.tally)
        self._tally = counted(tally)

    def _column(self, column: int, rows: Numbers) -> NDArray[Any]:
        """Return a column of rows on the device, zeros for others."""
        _, dtype, dim = self.fields.column(column)
        padded_rows = numbers(np.where(rows >= HOST, MISSING, rows))
        if dtype == "float32":
            return np.asarray(on_device.read(self.held.floats[self.floats.index(column)], padded_rows))[: len(rows)]
        at = self.words[column]
        return np.asarray(on_device.read(self.held.words, padded_rows))[: len(rows), at : at + dim].astype(dtype)

    def _write(self, rows: Numbers, new: dict[int, NDArray[Any]], marks: int = sum(CHANGED)) -> None:
        """Set columns of rows on the device, all different."""
        at = numbers(rows)
        words = np.array(on_device.read(self.held.words, at))
        words[: len(rows), MARKS] |= np.uint32(marks)
        for column, values in new.items():
            if column in self.words:
                begin = self.words[column]
                words[: len(rows), begin : begin + values.shape[1]] = values
        which = [n for n in new if n not in self.words]
        floats = [longer(new[n], len(at)) for n in which]
        self.held = on_device.write(self.held, tuple(map(self.floats.index, which)), at, words, floats)

    def _keep(self, rows: Numbers) -> None:
        """Copy what a snapshot under way still has to take of rows that are about to change."""
        if self._taking is not None:
            self._taking.keep(rows, self.records)

    def records(self, rows: Numbers) -> NDArray[np.uint8]:
        """Return the records of rows on the device, uint8[n, row_bytes]."""
        words = np.asarray(on_device.read(self.held.words, numbers(rows)))[: len(rows)]
        return self._recorded(words, [self._column(number, rows) for number in self.floats])

    def _recorded(self, words: Numbers, floats: list[NDArray[np.float32]]) -> NDArray[np.uint8]:
        """Return records of words and float columns."""
        whole = np.zeros((len(words), self.fields.row_bytes), np.uint8)
        fields = self.fields.of(whole)
        fields[KEY] = keys_in(words)
        for number, values in zip(self.floats, floats, strict=True):
            fields[str(number)] = values
        for number, at in self.words.items():
            _, dtype, dim = self.fields.columns[number]
            fields[str(number)] = words[:, at : at + dim].astype(dtype)
        return whole


def keys_in(words: Numbers) -> Keys:
    """Return the keys of rows' words."""
    return words[:, LOW].astype(np.uint64) | words[:, HIGH].astype(np.uint64) << np.uint64(32)
