"""Events as an algorithm over users' events reads them: the user and the time of rows by GROUP and TIME, and what a stored
history has of the time before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.blocks import events
from ....algorithms.blocks.events import EVENTS, EventTimes, EventUsers, PastColumn
from ...ps.keys import feature_keys
from ...spark_types import is_category
from ..slot import Slot
from .base import BlockKind, Encoding
from .spans import codes_of, distinct
from .types import is_list

MOST_SECONDS = 1 << 43
"""Integers are seconds since 1970; greater ones would not fit as microseconds."""


class EventUser(BlockKind):
    """The user of an event."""

    name = "user"
    types = "a category, such as a user's id"
    role = events.USER
    features = False
    block = EVENTS

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return role == self.role and is_category(type)

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> EventUsers:
        array = column.combine_chunks()
        array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
        there = array.is_valid().to_numpy(zero_copy_only=False)
        dictionary = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        if not len(dictionary.dictionary):
            return EventUsers(np.zeros(len(array), np.uint64), there)
        keys = feature_keys(slot.source, dictionary.dictionary)
        return EventUsers(keys[dictionary.indices.fill_null(0).to_numpy(zero_copy_only=False)], there)


class EventTime(BlockKind):
    """The time of an event: a timestamp, a date, or seconds since 1970; any integer that grows with time will do."""

    name = "moment"
    types = "a timestamp, a date, or seconds since 1970 as an integer"
    role = events.MOMENT
    features = False
    block = EVENTS

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return role == self.role and is_time(type)

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> EventTimes:
        return EventTimes(microseconds(column), column.is_valid().to_numpy())


class PastField(BlockKind):
    """A field of a stored history's events before each row, in spans of its image."""

    name = "past"
    types = "the fields of a stored history, which CREATE HISTORY makes"
    role = events.PAST
    block = EVENTS

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return role == self.role and is_list(type) and is_category(type.value_type)

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> PastColumn:
        piece = one_piece(column)
        codes, values = piece.values.indices.to_numpy(), piece.values.dictionary

        def at(places: NDArray[np.int64]) -> NDArray[np.int32]:
            used, inverse = distinct(codes.take(places), len(values))
            return codes_of(values, used, slot, encoding).take(inverse)

        return past_column(piece, at, False)


class PastTime(BlockKind):
    """The times of a stored history's events before each row."""

    name = "past moment"
    types = ""
    role = events.PAST_MOMENT
    features = False
    block = EVENTS

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return role == self.role and is_list(type) and is_time(type.value_type)

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> PastColumn:
        piece = one_piece(column)
        return past_column(piece, lambda places: microseconds(pa.chunked_array([piece.values.take(pa.array(places))])), True)


def is_time(type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type) or pa.types.is_date(type) or pa.types.is_integer(type))


def microseconds(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return times in microseconds since 1970; 0 of NULL."""
    if pa.types.is_integer(column.type):
        seconds = column.cast(pa.int64()).fill_null(0).to_numpy()
        found: NDArray[np.int64] = np.clip(seconds, -MOST_SECONDS, MOST_SECONDS) * 1_000_000
        return found
    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    times: NDArray[np.int64] = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64()).fill_null(0).to_numpy()
    return times


def one_piece(column: pa.ChunkedArray) -> pa.Array:
    piece = column.combine_chunks()
    return piece.chunk(0) if isinstance(piece, pa.ChunkedArray) else piece


def past_column(piece: pa.Array, at: Callable[[NDArray[np.int64]], NDArray[Any]], is_time: bool) -> PastColumn:
    sizes = piece.sizes.to_numpy().astype(np.int64)
    return PastColumn(piece.offsets.to_numpy()[: len(sizes)] + sizes, sizes, at, is_time)


USER, MOMENT, PAST, PAST_MOMENT = EventUser(), EventTime(), PastField(), PastTime()
