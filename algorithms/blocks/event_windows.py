"""Windows over users' events in order of time, packed side by side into strips."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class EventOrder(NamedTuple):
    """The rows of a chunk, user by user, each in order of time; rows of one moment stay in their order.

    Attributes:
        rows: int64[n], the rows.
        place: int64[n], where each row stands among them.
        begin, opens: int64[n], where the user, and the moment, of each place begins.
        moment: int64[n], the number of the moment of each place, ascending within a user; another moment, another number.
        times: int64[n], of each place.
    """

    rows: Numbers
    place: Numbers
    begin: Numbers
    opens: Numbers
    moment: Numbers
    times: Numbers

    @classmethod
    def of(cls, users: NDArray[np.uint64], times: Numbers) -> EventOrder:
        """Sort rows."""
        n = len(users)
        rows = np.lexsort((times, users))
        user, time = users[rows], times[rows]
        first = np.ones(n, np.bool_)
        first[1:] = user[1:] != user[:-1]
        new = first.copy()
        new[1:] |= time[1:] != time[:-1]
        place = np.empty(n, np.int64)
        place[rows] = np.arange(n)
        return cls(rows, place, started(first), started(new), np.cumsum(new), time)


def started(first: NDArray[np.bool_]) -> Numbers:
    """Return where the run of each place begins.

    Args:
        first: whether a run begins at a place.
    """
    starts = np.flatnonzero(first)
    return np.repeat(starts, np.diff(np.append(starts, len(first))))


class WindowCut(NamedTuple):
    """Windows over the places of a chunk's events, side by side in strips of `length` cells.

    Attributes:
        first, head: int64[windows], the place with which a window begins, and how many events follow one another there.
        tail: int64[windows], the place from which its other events come.
        size, strip, column: int64[windows], its events, and where it lies.
        of_row: int64[rows], the window that predicts each row of the batch.
        length: of a strip.
        strips: how many there are.
    """

    first: Numbers
    head: Numbers
    tail: Numbers
    size: Numbers
    strip: Numbers
    column: Numbers
    of_row: Numbers
    length: int
    strips: int

    def cells(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the place, the cell and the window of each event of each window."""
        window = np.repeat(np.arange(len(self.size)), self.size)
        within = np.arange(len(window)) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        head = self.head[window]
        place = np.where(within < head, self.first[window] + within, self.tail[window] + within - head)
        return place, self.strip[window] * self.length + self.column[window] + within, window

    def cell(self, place: Numbers) -> Numbers:
        """Return the cell of each row of the batch.

        Args:
            place: of each.
        """
        window = self.of_row
        within, head = place - self.first[window], self.head[window]
        within = np.where(within < head, within, head + place - self.tail[window])
        return self.strip[window] * self.length + self.column[window] + within


def windows_of(order: EventOrder, rows: Numbers, length: int, ladder: Callable[[int, int], int]) -> WindowCut:
    """Return the windows that predict some rows.

    A user's first window has the first `length` events and predicts all; each further one begins half a length later, and
    predicts its second half. So a window depends on no event after it, nor on how rows are cut into batches. Rows of one
    moment, such as the candidates of a request, stand where the first of them does, `length` of them in a window: each has the
    past that it has alone.

    Args:
        ladder: (events of the longest window, most of any) -> cells of a strip.
    """
    place = order.place[rows]
    begin, opens, step = order.begin[place], order.opens[place], max(1, length // 2)
    first = begin + np.maximum(0, -(-(opens - begin - length + 1) // step)) * step
    part = (place - opens) // length
    tail = np.where(part > 0, opens + part * length, -1)
    found, of_row = np.unique(np.stack([first, tail]), axis=1, return_inverse=True)
    of_row = of_row.reshape(-1)
    stop, past = np.zeros((2, found.shape[1]), np.int64)
    np.maximum.at(stop, of_row, place + 1)
    past[of_row] = opens
    first, tail = found
    head = np.where(tail < 0, stop, past) - first
    sizes = head + np.where(tail < 0, 0, stop - tail)
    cells = ladder(int(sizes.max(initial=1)), 2 * length)
    strip, column, strips = packed(sizes, cells)
    return WindowCut(first, head, tail, sizes, strip, column, of_row, cells, strips)


def packed(sizes: Numbers, cells: int) -> tuple[Numbers, Numbers, int]:
    """Return the strip and the first cell of each window, and how many strips there are: the longest first, each into the strip
    that is open while it fits, and what is left of it filled with the shortest."""
    order = np.argsort(-sizes, kind="stable").tolist()
    strip, column = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
    left, right, number = 0, len(order) - 1, -1
    while left <= right:
        number, free = number + 1, cells
        while left <= right and sizes[order[left]] <= free:
            one, left = order[left], left + 1
            strip[one], column[one], free = number, cells - free, free - sizes[one]
        while left <= right and sizes[order[right]] <= free:
            one, right = order[right], right - 1
            strip[one], column[one], free = number, cells - free, free - sizes[one]
    return strip, column, number + 1


def strips_of(strips: int) -> int:
    """Return the padded number of strips: 1, 2, 3, 4, 6, 8, 12, 16, ..."""
    size = 1
    while size < strips:
        if size * 3 // 2 >= strips and size > 1:
            return size * 3 // 2
        size *= 2
    return size
