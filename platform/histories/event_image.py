"""The event image of a history: all events of all users as arrays in files that are mapped, found by the user.

    users.arrow      as in image.py: user, key, begin, end; the schema says which fields there are, and their types
    times.i64        of each event, by user, the oldest first; events of one moment in order of the fields
    <n>.i32          the code of each event's value of field n: a place among its values
    <n>.arrow        the values of field n, each once, and NULL as the last
    <n>.f64          of a field of numbers with fractions in their place: the numbers, NaN for NULL

A row's history is a span of places, `begin` to `end`, so it takes 16 bytes, however long it is. Threads and processes share
what is mapped.

    image = opened(folder)
    begin, end = image.spans(users, times)        # of rows: their users' events that are strictly earlier
    image.field("item").codes[begin[0] : end[0]]  # what the first row's user had, the oldest first
    image.users, image.begins, image.ends         # every user, and the span of all events
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.mapped import cut_off
from ..errors import ModelError
from .image import SPANS, USERS, as_numbers, content_of, keys_of, table_of

FIELDS, TIMES = "fields", "times.i64"
KEPT = 16
"""Images that stay open in a process."""
NEVER = np.iinfo(np.int64).min
"""The time of a row without one: nothing is earlier."""

Places = NDArray[np.int64]
Sums = tuple[tuple[str, str], ...]


class EventField(NamedTuple):
    """A field of events whose values are categories.

    Attributes:
        codes: int32[events], places among `values`.
        values: distinct, and NULL as the last.
    """

    codes: NDArray[np.int32]
    values: pa.Array


class EventImage:
    """An event image that is mapped; threads may share it.

    Attributes:
        users: every user, in order of `keys`.
        keys: uint64[users], see `image.keys_of`.
        begins, ends: int64[users], the places of each user's events.
        times: int64[events]: microseconds of timestamps, days of dates, or the numbers themselves.
        types: of each field's values, by name.
        time_type: of times, in the history's query.

    Args:
        sums: the checksums of its files, which are compared; None: they are not.

    Raises:
        ModelError: a file of it is damaged or gone.
    """

    def __init__(self, folder: Path, sums: Mapping[str, str] | None = None) -> None:
        self._folder, self._sums = folder, sums
        try:
            self._contents = [content := self._content(USERS)]
            table = table_of(content)
            said = json.loads((table.schema.metadata or {})[FIELDS.encode()])
            spans, user = table.select(SPANS.names), table.column("user")
            if spans.schema.remove_metadata() != SPANS or user.num_chunks > 1:
                raise ValueError("its users are not as they are written")
            self.users = user.chunk(0) if user.num_chunks else pa.array([], user.type)
            self.users.validate(full=True)
            self.keys, self.begins, self.ends = (column.to_numpy() for column in spans.columns)
            self.time_type = table.schema.field("time").type
            self.types: dict[str, pa.DataType] = {
                name: table.schema.field(f"value.{number}").type for number, name in enumerate(said)
            }
            self.times: NDArray[np.int64] = self._array(TIMES, np.int64)
            lengths = self.ends - self.begins
            if len(lengths) and (lengths.min() < 0 or self.begins.min() < 0 or self.ends.max() > len(self.times)):
                raise ValueError("the events of a user lie outside of it")
        except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
            raise self._damaged(error) from error

    @property
    def user_type(self) -> pa.DataType:
        """The type of users."""
        return self.users.type

    @functools.cached_property
    def moments(self) -> pa.Array:
        """The times of events in the form of rows: timestamps, dates, or whole numbers."""
        kind, times = self.time_type, pa.array(self.times)
        if pa.types.is_timestamp(kind):
            return times.view(kind)
        return times.cast(pa.int32()).view(pa.date32()) if pa.types.is_date(kind) else times

    @functools.cache  # noqa: B019  images are kept by `opened`
    def field(self, name: str) -> EventField:
        """Return a field whose values are categories: texts, whole numbers, booleans or dates.

        Raises:
            ModelError: its files are damaged.
        """
        number = list(self.types).index(name)
        try:
            codes = self._array(f"{number}.i32", np.int32)
            values = table_of(self._content(f"{number}.arrow")).column(0).combine_chunks()
            values.validate(full=True)
            if len(codes) != len(self.times) or (len(codes) and not 0 <= codes.min() <= codes.max() < len(values)):
                raise ValueError(f"the values of {name} lie outside of it")
            return EventField(codes, values)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise self._damaged(error) from error

    @functools.cache  # noqa: B019
    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a field of numbers with fractions, float64[events]; NaN for NULL."""
        try:
            found: NDArray[np.float64] = self._array(f"{list(self.types).index(name)}.f64", np.float64)
            return found
        except (OSError, ValueError) as error:
            raise self._damaged(error) from error

    def places(self, users: pa.Array) -> Places:
        """Return the place of each of some users among `users`, int64[n]; -1 of one without events, and of NULL."""
        keys = keys_of(users)
        at = np.searchsorted(self.keys, keys)
        found = np.full(len(users), -1, np.int64)
        texts = users.cast(self.user_type)
        left = np.flatnonzero(users.is_valid().to_numpy(zero_copy_only=False))
        while len(left):  # once, but for users whose keys are the same
            left = left[at[left] < len(self.keys)]
            left = left[self.keys[at[left]] == keys[left]]
            same = same_values(self.users.take(pa.array(at[left])), texts.take(pa.array(left)))
            found[left[same]] = at[left[same]]
            left = left[~same]
            at[left] += 1
        return found

    def spans(
        self, users: pa.Array, before: Places, within: int | None = None, most: int | None = None
    ) -> tuple[Places, Places]:
        """Return the places of the events of each row's user that are strictly earlier, int64[rows] each.

        Args:
            users: of `user_type`, as a dictionary or not.
            before: int64[rows], times as numbers; see `times_of`.
            within: how old an event may be; None: any age.
            most: only so many, the last ones.

        Raises:
            ModelError: a file of it was cut off.
        """
        if not pa.types.is_dictionary(users.type):
            users = users.dictionary_encode()
        rows = self.places(users.dictionary)
        owner = users.indices.fill_null(0).to_numpy(zero_copy_only=False)
        owner = np.where(users.is_valid().to_numpy(zero_copy_only=False), rows.take(owner) if len(rows) else -1, -1)
        known = owner >= 0
        begin, stop = (np.where(known, of.take(owner, mode="clip") if len(of) else 0, 0) for of in (self.begins, self.ends))
        end = self._earlier(begin, stop, before)
        if within is not None:
            begin = np.minimum(self._earlier(begin, stop, np.where(before == NEVER, NEVER, before - within)), end)
        if most is not None:
            begin = np.maximum(begin, end - most)
        if any(map(cut_off, self._contents)):
            raise self._damaged(OSError("it was cut off while it was in use"))
        return begin, end

    def times_of(self, times: pa.Array | pa.ChunkedArray) -> Places:
        """Return times of rows as numbers; of NULL, before all events.

        Raises:
            ArrowInvalid: a time is none of the image's type.
        """
        if times.type != self.time_type:
            times = times.cast(self.time_type)
        found: Places = as_numbers(times).fill_null(NEVER).to_numpy()
        return found

    def _earlier(self, begin: Places, end: Places, before: Places) -> Places:
        """Return the first place of each span that is not earlier, by bisection of all at once."""
        low, high = begin.copy(), end.copy()
        while len(open := np.flatnonzero(low < high)):
            middle = (low[open] + high[open]) // 2
            earlier = self.times.take(middle) < before[open]
            low[open[earlier]] = middle[earlier] + 1
            high[open[~earlier]] = middle[~earlier]
        return low

    def _content(self, name: str) -> Any:
        path = self._folder / name
        return content_of(path, None if self._sums is None or not path.stat().st_size else self._sums[name])

    def _array(self, name: str, dtype: Any) -> Any:
        content = self._content(name)
        self._contents.append(content)
        return content.view(dtype) if len(content) else np.empty(0, dtype)

    def _damaged(self, error: Exception) -> ModelError:
        return ModelError(f"The event image {self._folder} cannot be read: {error}. REFRESH HISTORY makes another one.")


def same_values(some: pa.Array, others: pa.Array) -> NDArray[np.bool_]:
    import pyarrow.compute as pc  # takes 40 ms

    return np.asarray(pc.equal(some, others).to_numpy(zero_copy_only=False), np.bool_)


@functools.lru_cache(maxsize=KEPT)
def _opened(folder: str, inode: int, sums: Sums) -> EventImage:
    return EventImage(Path(folder), dict(sums) or None)


def opened(folder: Path, sums: Sums = ()) -> EventImage:
    """Return the image of a folder, which stays open.

    Args:
        sums: names of files, and the checksums that they must have; () for any.

    Raises:
        ModelError: see EventImage; or the folder is gone.
    """
    try:
        return _opened(str(folder), folder.stat().st_ino, sums)
    except FileNotFoundError as error:
        raise ModelError(
            f"The event image {folder} is gone: its history was dropped, or newer versions took its place."
        ) from error
