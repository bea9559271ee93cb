"""Events: rows that are what a user did, in order of time, read user by user in windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...platform.errors import DataError
from .base import Array, BatchWindow, Cells, Codes, SlotBlock, SlotLike
from .event_windows import EventOrder, Numbers, WindowCut, strips_of, windows_of

if TYPE_CHECKING:
    import jax

ARRAYS: Mapping[str, Array] = {
    "rows": Array("fSL", np.int32),
    "mask": Array("SL", np.bool_),
    "window": Array("SL", np.int32),
    "moment": Array("SL", np.int32),
    "seconds": Array("SL", np.int32),
    "until": Array("SL", np.int32),
    "own": Array("B", np.int32),
    "before": Array("B", np.int32),
    "slots": Array("K", np.bool_),
}
MICROSECONDS = 1_000_000
LONE = np.uint64(0x9E3779B97F4A7C15)
"""The number of a row without a user times it is the key of a user of its own."""
NO_FIELDS, NOWHERE = np.empty((0, 0), np.int32), np.zeros(0, np.bool_)
USER, MOMENT, PAST, PAST_MOMENT = "user", "moment", "past", "past_moment"
"""The roles of slots: of the user and the time of a row, and of the fields and the time of a stored history's events."""


class EventSlots(NamedTuple):
    """The slots of events.

    Attributes:
        length: the most events that are seen together.
        complete: there are the user and the time.
    """

    slots: tuple[str, ...]
    length: int
    complete: bool = True


class EventUsers(NamedTuple):
    """The user of each row, by a hash of the value, and which rows have one."""

    keys: NDArray[np.uint64]
    there: NDArray[np.bool_]


class EventTimes(NamedTuple):
    """The time of each row in microseconds since 1970, and which rows have one."""

    times: Numbers
    there: NDArray[np.bool_]


class PastColumn(NamedTuple):
    """What a stored history has of the events before each row.

    Attributes:
        end, size: int64[rows], behind the last of them, and how many there are.
        at: gives the codes of a field, or the times in microseconds since 1970, of some places.
        is_time: it is the times.
    """

    end: Numbers
    size: Numbers
    at: Callable[[Numbers], NDArray[Any]]
    is_time: bool


@dataclass(frozen=True, eq=False)
class EventRows:
    """The events of a chunk: its rows, and behind them what a stored history has of the time before a user's first row.

    Attributes:
        users: uint64[events]; times: int64[events], microseconds since 1970.
        length: the most events that are seen together.
        fields: int32[fields, events], the codes that a model sees of past events; see `PastFields`.
        past: int32[fields, k], the codes of the events behind the rows, which are no examples; each user's the oldest first.
        slots: how many the block has.
        timeless: the name of the times' slot, and which rows have none; they come first.
    """

    users: NDArray[np.uint64]
    times: Numbers
    length: int
    fields: Codes = field(default_factory=lambda: NO_FIELDS)
    past: Codes = field(default_factory=lambda: NO_FIELDS)
    slots: int = 2
    timeless: tuple[str, NDArray[np.bool_]] = field(default_factory=lambda: ("", NOWHERE))
    _kept: dict[str, Any] = field(default_factory=dict, repr=False)

    def check(self, where: Callable[[int], str]) -> None:
        """Refuse rows to learn from that have no time.

        Raises:
            DataError: names the column and the row.
        """
        name, absent = self.timeless
        if absent.any():
            raise DataError(
                f"{name} says when an event was (TIME) and must not be NULL; {where(int(np.argmax(absent)))} has NULL. Leave "
                "such rows out in the query."
            )

    @property
    def rows(self) -> int:
        """How many of the events are rows."""
        return len(self.users) - int(self.past.shape[1])

    def take(self, rows: NDArray[np.intp]) -> EventRows:
        """See InChunk."""
        kept = np.concatenate([rows, np.arange(self.rows, len(self.users))])
        fields = self.fields[:, kept] if len(self.fields) else NO_FIELDS
        return replace(self, users=self.users[kept], times=self.times[kept], fields=fields, timeless=("", NOWHERE), _kept={})

    def coded(self, codes: Codes) -> EventRows:
        """See InChunk."""
        past, fields = (codes.take(one, mode="wrap") if one.size else one for one in (self.past, self.fields))
        return replace(self, past=past, fields=fields, _kept={})

    def with_fields(self, fields: Codes) -> EventRows:
        """Return the events with what a model sees of rows that are past, int32[fields, rows]."""
        return replace(self, fields=np.concatenate([fields, self.past], axis=1) if len(self.past) else fields)

    def with_context(self, most: int) -> EventRows:
        """Return the rows, with the last events before a user's first row, at most so many."""
        owner = self.users[self.rows :]
        ends = np.flatnonzero(np.append(owner[1:] != owner[:-1], True)) if len(owner) else np.empty(0, np.int64)
        end = np.repeat(ends, np.diff(np.append(-1, ends)))
        kept = np.append(np.arange(self.rows), self.rows + np.flatnonzero(end - np.arange(len(owner)) < most))
        fields = self.fields[:, kept] if len(self.fields) else NO_FIELDS
        past = self.past[:, kept[self.rows :] - self.rows]
        return replace(self, users=self.users[kept], times=self.times[kept], past=past, fields=fields, _kept={})

    @property
    def order(self) -> EventOrder:
        """Its rows in order."""
        if "order" not in self._kept:
            self._kept["order"] = EventOrder.of(self.users, self.times)
        found: EventOrder = self._kept["order"]
        return found

    def _windows(self, start: int, stop: int, ladder: Callable[[int, int], int]) -> WindowCut:
        return windows_of(self.order, np.arange(start, stop), self.length, ladder)

    def features(self, start: int, stop: int) -> tuple[Codes, Codes]:
        """See InChunk: those of the events of windows, field by field."""
        place, _, _ = self._windows(start, stop, largest).cells()
        rows = self.order.rows[place]
        examples = np.where((rows >= start) & (rows < stop), rows - start, 0).astype(np.int32)
        codes = self.fields[:, rows] if len(self.fields) else np.empty(0, np.int32)
        return np.ascontiguousarray(codes.reshape(-1)), np.tile(examples, len(self.fields))

    def cut(self, window: BatchWindow, rows: Codes) -> Events:
        """See InChunk."""
        order, cut = self.order, self._windows(window.start, window.stop, window.length_of)
        place, cell, number = cut.cells()
        strips = strips_of(cut.strips)
        shape, fields = (strips, cut.length), len(self.fields)
        index: Any = np.full((fields, strips * cut.length), window.absent, np.int32)
        index[:, cell] = rows.reshape(fields, -1)
        lines: dict[str, Any] = {name: np.zeros(strips * cut.length, np.int32) for name in ("moment", "seconds", "until")}
        windows: Any = np.full(strips * cut.length, -1, np.int32)
        windows[cell] = number
        began = cut.first[number]
        lines["moment"][cell] = order.moment[place] - order.moment[began]
        lines["seconds"][cell] = in_seconds(order.times[place] - order.times[began])
        last = np.append(number[1:] != number[:-1], True) if len(number) else np.empty(0, np.bool_)
        following = self._next_moment(place, last)
        lines["until"][cell] = in_seconds(order.times[following] - order.times[began])
        own, before = self._examples(window, cut, strips)
        made = {name: line.reshape(shape) for name, line in lines.items()}
        windows = windows.reshape(shape)
        there: Any = windows >= 0
        slots: Any = np.ones(self.slots, np.bool_)
        return Events(index.reshape(fields, *shape), there, windows, own=own, before=before, slots=slots, **made)

    def _next_moment(self, place: Numbers, last: NDArray[np.bool_]) -> Numbers:
        """Return, for the place of each event of windows, that of the first later moment in its window; its own if none is."""
        moment, n = self.order.moment, len(place)
        ends = np.flatnonzero(last)
        end = np.repeat(ends, np.diff(np.append(-1, ends)))
        new = np.append(moment[place[1:]] != moment[place[:-1]], True) if n else np.empty(0, np.bool_)
        borders = np.flatnonzero(new | last)
        border = borders[np.searchsorted(borders, np.arange(n))] if n else np.empty(0, np.int64)
        return np.where(border < end, place[np.minimum(border + 1, n - 1)], place)

    def _examples(self, window: BatchWindow, cut: WindowCut, strips: int) -> tuple[Any, Any]:
        """Return the cell of each example, and that of the last event before its moment, -1 where there is none."""
        order = self.order
        own, before = np.full(window.size, strips * cut.length, np.int32), np.full(window.size, -1, np.int32)
        place = order.place[window.start : window.stop]
        own[: len(place)] = cut.cell(place)
        earlier = order.opens[place] - 1
        before[: len(place)] = np.where(earlier >= cut.first[cut.of_row], cut.cell(earlier), -1)
        return own, before

    def cells(self) -> list[Cells]:
        """See InChunk: none, as users and times are no features."""
        return []


def after_past(rows: EventRows, stored: Sequence[PastColumn], known: NDArray[np.bool_]) -> EventRows:
    """Return rows, and behind them the last events that a history has of each user before the first row, fewer than a window.

    Args:
        known: which rows have a user and a time.
    """
    order = np.lexsort((rows.times, rows.users))
    order = order[known[order]]
    owner = rows.users[order]
    first = order[np.append(True, owner[1:] != owner[:-1])] if len(order) else order
    size = np.minimum(stored[0].size[first], rows.length - 1)
    before = np.cumsum(size) - size
    place = np.arange(size.sum()) + np.repeat(stored[0].end[first] - size - before, size)
    (times,) = (one for one in stored if one.is_time)
    past = np.stack([one.at(place) for one in stored if not one.is_time]).astype(np.int32)
    users = np.concatenate([rows.users, np.repeat(rows.users[first], size)])
    return replace(rows, users=users, times=np.concatenate([rows.times, times.at(place)]), past=past)


def largest(longest: int, most: int) -> int:
    return most


def in_seconds(microseconds: Numbers) -> NDArray[np.int32]:
    return np.minimum(microseconds // MICROSECONDS, np.iinfo(np.int32).max).astype(np.int32)


States = tuple[tuple["jax.Array", "jax.Array"], ...]
"""What layers keep of events: of each the keys and values, float32[1, P, heads, dim / heads]."""


class Prefix(NamedTuple):
    """The events with which the window of a strip begins, of earlier moments than the events of a batch, as layers have them.

    Attributes:
        seconds: int32[1, P], as Events has them; mask: bool[1, P]; size: int32[], how many events there are.
    """

    states: States
    seconds: jax.Array
    mask: jax.Array
    size: jax.Array


class Events(NamedTuple):
    """The events of a batch: windows of users' events in order of time, packed into S strips of L cells.

    Attributes:
        rows: int32[fields, S, L]; the row of each field of an event, that of zeros where it is NULL or no event is there.
        mask: bool[S, L]; whether an event is there.
        window: int32[S, L]; the window of each event; -1 where none is there. Windows lie side by side, oldest event first.
        moment: int32[S, L]; the number of the event's time in its window: events of one moment have the same.
        seconds: int32[S, L]; the event's time since the window began.
        until: int32[S, L]; the time of the next moment, when the event after is predicted; of the last one its own.
        own: int32[batch]; the cell of each example, among S * L; S * L, which is none, of padding.
        before: int32[batch]; the cell of the last event before each example's moment; -1 where it has none in its window.
        slots: bool[slots of the block]; True.
        prefix: what the only window begins with, before its events, where layers have read that already; None: nothing.
        begins: int32[S, L] both; the columns where the window and the moment of each event begin; None: layers find them.
    """

    rows: jax.Array
    mask: jax.Array
    window: jax.Array
    moment: jax.Array
    seconds: jax.Array
    until: jax.Array
    own: jax.Array
    before: jax.Array
    slots: jax.Array
    prefix: Prefix | None = None
    begins: tuple[jax.Array, jax.Array] | None = None

    @property
    def arrays(self) -> Mapping[str, Array]:
        """See InBatch."""
        return ARRAYS

    def empty(self, batch: int, groups: int) -> Events:
        """See InBatch."""
        lines: dict[str, Any] = {name: np.zeros_like(getattr(self, name)) for name in ARRAYS}
        lines |= {"own": np.full(batch, self.mask.size, np.int32), "before": np.full(batch, -1, np.int32)}
        return Events(**lines)

    def with_rows(self, rows: jax.Array) -> Events:
        """See InBatch."""
        return self._replace(rows=rows)

    def present(self) -> tuple[int, ...]:
        """See InBatch."""
        return self.rows.shape

    def scaled(self, share: jax.Array) -> Events:
        """See InBatch."""
        return self

    def by_slot(self, share: jax.Array) -> jax.Array:
        """See InBatch: users and times themselves have no part in a score."""
        return np.zeros((self.own.shape[0], self.slots.shape[0]), np.float32)  # type: ignore[return-value]


class EventBlock(SlotBlock[EventSlots, EventRows, Events]):
    """Events of users, a record of the user's slot and that of the time."""

    name = "events"
    arrays = ARRAYS
    words = "events"
    single = True

    def layout(self, slots: Sequence[SlotLike]) -> EventSlots:
        """See SlotBlock."""
        complete = {USER, MOMENT} <= {slot.role for slot in slots}
        return EventSlots(tuple(slot.name for slot in slots), max(slot.length for slot in slots), complete)

    def encoded(self, slots: Sequence[SlotLike], columns: Sequence[Any], where: Callable[[int], str]) -> EventRows:
        """See SlotBlock. A row without a user is one of its own."""
        (users,) = (column for column in columns if isinstance(column, EventUsers))
        (moments,) = (column for column in columns if isinstance(column, EventTimes))
        alone = np.arange(len(users.keys), dtype=np.uint64) * LONE
        keys = np.where(users.there, users.keys, alone)
        name = next(slot.name for slot, column in zip(slots, columns, strict=True) if column is moments)
        length, stored = max(slot.length for slot in slots), [one for one in columns if isinstance(one, PastColumn)]
        found = EventRows(keys, moments.times, length, slots=len(slots))
        if stored:
            found = after_past(found, stored, users.there & moments.there)
        return replace(found, timeless=(name, ~moments.there))

    def sizes(self, slots: EventSlots) -> Mapping[str, int]:
        """See SlotBlock."""
        return {}

    def made(self, arrays: Mapping[str, Any]) -> Events:
        """See SlotBlock."""
        return Events(**arrays)


EVENTS = EventBlock()
