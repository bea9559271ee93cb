"""The image of a history: the last events of each user in files that are mapped, found by the hash of the user.

    users.arrow     user, key: the users in order of the hash of their text; begin, end: their events
    events.arrow    the order and the values of events, by user, the oldest first

Both are files of Arrow's IPC format. Any number of processes share the pages that they look at. Arrow believes
what a file says of where its texts and lists are, so each row is checked before it is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...warehouse.checksums import NUM_SLICES, Block, FileEntry, VersionFile, checksum_of
from ...warehouse.durable import make_folder, storing
from ...warehouse.mapped import Bytes, cut_off, verified
from ..errors import ModelError
from ..ps.keys import feature_keys

SEED = ""  # the slot that users are hashed as
USERS, EVENTS = "users.arrow", "events.arrow"
NO_TIMES = pa.chunked_array([], pa.int64())
SPANS = pa.schema([("key", pa.uint64()), ("begin", pa.int64()), ("end", pa.int64())])


def write_image(kept: list[Path], folder: Path, partition: str) -> tuple[int, int]:
    """Write an image of the last events of all users, and return how many events and users there are.

    Args:
        kept: files of the events in order of user and time.
    """
    with storing(folder):
        make_folder(folder)
    begins, owners, count = [], [], 0
    last: pa.Scalar | None = None
    with storing(folder / EVENTS):
        schema = pq.read_schema(kept[0])
        others = [name for name in schema.names if name != partition]
        own = pa.schema([schema.field(name) for name in others])
        with pa.OSFile(str(folder / EVENTS), "wb") as sink, pa.ipc.new_file(sink, own) as writer:
            for file in kept:
                for batch in pq.ParquetFile(file).iter_batches():
                    users = batch.column(partition)
                    starts = changes(users, last)
                    begins.append(starts + count)
                    owners.append(users.take(pa.array(starts)))
                    count += batch.num_rows
                    last = users[-1] if batch.num_rows else last
                    writer.write_batch(batch.select(others))
    user = pa.concat_arrays(owners) if owners else pa.array([], schema.field(partition).type)
    begin = np.concatenate(begins) if begins else np.empty(0, np.int64)
    end = np.append(begin[1:], count) if len(begin) else begin
    keys = keys_of(user)
    order = np.argsort(keys, kind="stable")
    table = pa.table({"user": user.take(pa.array(order)), "key": keys[order], "begin": begin[order], "end": end[order]})
    path = folder / USERS
    with storing(path), pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return count, len(user)


def changes(users: pa.Array, last: pa.Scalar | None) -> NDArray[np.int64]:
    """Return where another user begins than the one before."""
    codes = users.dictionary_encode().indices.to_numpy()
    new = np.ones(len(codes), bool)
    new[1:] = codes[1:] != codes[:-1]
    if len(codes) and last is not None and users[0] == last:
        new[0] = False
    return np.flatnonzero(new)


def keys_of(users: pa.Array) -> NDArray[np.uint64]:
    return feature_keys(SEED, users) if len(users) else np.empty(0, np.uint64)


def sums_of(folder: Path) -> dict[str, str]:
    """Return the checksums of an image's files."""
    return {name: checksum_of(folder / name) for name in (USERS, EVENTS)}


class HistoryImage:
    """An image that is mapped; threads may share it.

    Args:
        order: the column of times, NULL nowhere; None: there is none, and a user has one row.
        within: how old an event may be, in the unit of times; None: any age.
        sums: the checksums of its files, which are read and compared; None: they are not.
        words: what the image is of, in statements.

    Attributes:
        within: as given.

    Raises:
        ModelError: a file of it is damaged or gone.
    """

    def __init__(
        self,
        folder: Path,
        order: str | None,
        within: int | None,
        sums: Mapping[str, str] | None = None,
        words: str = "HISTORY",
    ) -> None:
        self.within, self._words = within, words
        self._folder = folder
        try:
            self._contents = [content_of(folder / name, None if sums is None else sums[name]) for name in (USERS, EVENTS)]
            users, self._events = map(table_of, self._contents)
            spans, user = users.select(SPANS.names), users.column("user")
            times = NO_TIMES if order is None else self._events.column(order)
            if spans.schema != SPANS or user.num_chunks > 1 or any(spans.column(name).null_count for name in SPANS.names):
                raise ValueError("its users are not as they are written")
            self._users = user.chunk(0) if user.num_chunks else pa.array([], user.type)
            self._keys, self._begins, self._ends = (column.to_numpy() for column in spans.columns)
            self.user_type, self.time_type = user.type, times.type
            self._times = as_numbers(times).to_numpy()
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise self._damaged(error) from error

    def last(self, user: pa.Array, before: int | None, value: str) -> pa.ChunkedArray:
        """Return the values of a user's events, the oldest first.

        Args:
            user: one user, of `user_type`; NULL has no events.
            before: only events that are strictly earlier, as a number; None: all that are known.

        Raises:
            ModelError: what is looked at is damaged.
        """
        try:
            begin, end = self._span(user)
            times = self._times[begin:end]
            if before is not None:
                end = begin + int(np.searchsorted(times, before, "left"))
                if self.within is not None:
                    begin += int(np.searchsorted(times, before - self.within, "left"))
            found = sound(self._events.column(value).slice(begin, max(end - begin, 0)))
            if any(map(cut_off, self._contents)):
                raise ValueError("it was cut off while it was in use")
            return found
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise self._damaged(error) from error

    def latest(self, user: pa.Array, before: int | None, values: Sequence[str]) -> list[Any] | None:
        """Return values of a user's last row that is strictly earlier; None where there is none. Arguments as of `last`."""
        try:
            begin, end = self._span(user)
            if before is not None:
                end = begin + int(np.searchsorted(self._times[begin:end], before, "left"))
            if end <= begin:
                return None
            found = [sound(self._events.column(value).slice(end - 1, 1))[0].as_py() for value in values]
            if any(map(cut_off, self._contents)):
                raise ValueError("it was cut off while it was in use")
            return found
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise self._damaged(error) from error

    def _span(self, user: pa.Array) -> tuple[int, int]:
        if user.null_count:
            return 0, 0
        key = keys_of(user)[0]
        at = int(np.searchsorted(self._keys, key))
        while at < len(self._keys) and self._keys[at] == key:
            if sound(self._users.slice(at, 1))[0] == user[0]:
                begin, end = int(self._begins[at]), int(self._ends[at])
                if not 0 <= begin <= end <= self._events.num_rows:
                    raise ValueError(f"a user's events are {begin} to {end}, of {self._events.num_rows}")
                return begin, end
            at += 1
        return 0, 0

    def _damaged(self, error: Exception) -> ModelError:
        return ModelError(f"The image {self._folder} cannot be read: {error}. REFRESH {self._words} makes another one.")


def sound(values: Any) -> Any:
    """Return values of a mapped file, whose places were checked.

    Raises:
        ArrowException: some are outside of it.
    """
    values.validate(full=True)
    return values


def content_of(path: Path, written: str | None) -> Bytes:
    """Return the bytes of a file, whose checksum is compared.

    Args:
        written: its checksum; None of one that has none.
    """
    whole = None if written is None else FileEntry(path.name, 0, (str(Block(0, NUM_SLICES, path.stat().st_size, written)),))
    return verified(VersionFile(path, whole))


def table_of(content: Bytes) -> pa.Table:
    """Return what a file has; where its columns begin and end is checked, and that Python has their types."""
    found: pa.Table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
    found.validate()
    for field in found.schema:
        pa.array([], field.type)  # months, which nobody can write from Python, can be read from a file
    return found


def as_numbers(times: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as whole numbers: microseconds of timestamps, days of dates."""
    kind = times.type
    if pa.types.is_date(kind):
        times = times.cast(pa.int32())
    return times.cast(pa.int64())
