"""Writing event images: from events in order, and from an image and the events that came after it; see event_image.py."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...warehouse.checksums import checksum_of
from ...warehouse.durable import make_folder, storing
from ..spark_types import is_category
from .event_image import FIELDS, TIMES, EventImage, Places, opened
from .image import USERS, as_numbers, changes, keys_of

PIECE = 1 << 20
"""Events that are copied at once."""


class EventFields(NamedTuple):
    """The fields of events that an image has.

    Attributes:
        names: in the order of the history's query.
        numbers: those that are numbers with fractions; the others are categories.
    """

    names: tuple[str, ...]
    numbers: frozenset[str]

    @classmethod
    def of(cls, kinds: Mapping[str, pa.DataType]) -> EventFields:
        """Choose among values by their types: lists, structs and the like are no fields."""
        numbers = {name for name, kind in kinds.items() if pa.types.is_floating(kind) or pa.types.is_decimal(kind)}
        return cls(tuple(name for name, kind in kinds.items() if name in numbers or is_category(kind)), frozenset(numbers))

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.numbers)


def write_events(files: Sequence[Path], folder: Path, partition: str, order: str, values: Sequence[str]) -> None:
    """Write an image of all events of files, which have them in order of user, time and values."""
    schema = pq.read_schema(files[0])
    kept = EventFields.of({name: schema.field(name).type for name in values})
    found = {name: Distinct(schema.field(name).type) for name in kept.categories}

    def column(name: str, values: pa.Array) -> NDArray[Any]:
        return as_floats(values) if name in kept.numbers else found[name].codes(plain(values))

    begins, owners, count, last = [], [], 0, None
    with EventFiles(folder, kept) as written:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(columns=[partition, order, *kept.names]):
                if not batch.num_rows:
                    continue
                users, times = plain(batch.column(partition)), pa.chunked_array([batch.column(order)])
                starts = changes(users, last)
                begins.append(starts + count)
                owners.append(users.take(pa.array(starts)))
                count, last = count + batch.num_rows, users[-1]
                written.add([as_numbers(times).to_numpy(), *(column(name, batch.column(name)) for name in kept.names)])
        user = pa.concat_arrays(owners) if owners else pa.array([], plain_type(schema.field(partition).type))
        begin = np.concatenate(begins) if begins else np.empty(0, np.int64)
        end = np.append(begin[1:], count)[: len(begin)]
        written.finish([one.values for one in found.values()], user, begin, end, schema.field(order).type)


def merge_events(before: Path, more: Path, folder: Path) -> None:
    """Write the image of the events of two, of one history: what is not touched is copied, users with new events are sorted."""
    old, new = opened(before), opened(more)
    kept = EventFields.of(old.types)
    both = Sides(old, new, kept)
    known = old.places(new.users)
    there = {int(place): at for at, place in enumerate(known)}
    touched = np.sort(known[known >= 0])
    steps, at = np.zeros(len(old.times) + 1, np.int64), 0  # by how much events move back, from a place on
    with EventFiles(folder, kept) as written:
        for user in touched[np.argsort(old.begins[touched])]:
            begin, end, own = int(old.begins[user]), int(old.ends[user]), there[int(user)]
            both.copy(written, at, begin)
            places = both.sorted(begin, end, int(new.begins[own]), int(new.ends[own]))
            written.add(both.columns(places))
            steps[end] += len(places) - (end - begin)
            at = end
        both.copy(written, at, len(old.times))
        shift, fresh, first = np.cumsum(steps), np.flatnonzero(known < 0), written.count
        for user in fresh:
            written.add(both.columns(len(old.times) + np.arange(new.begins[user], new.ends[user])))
        sizes = (new.ends - new.begins)[fresh]
        stops = first + np.cumsum(sizes)
        begins = np.concatenate([old.begins + shift[old.begins], stops - sizes])
        ends = np.concatenate([old.ends + shift[old.ends], stops])
        users = pa.concat_arrays([old.users, new.users.take(pa.array(fresh)).cast(old.user_type)])
        written.finish(both.values, users, begins, ends, old.time_type)


def sums_in(folder: Path) -> dict[str, str]:
    """Return the checksums of an image's files."""
    return {file.name: checksum_of(file) for file in sorted(folder.glob("*"))}


class Distinct:
    """The distinct values of a field, as they come."""

    def __init__(self, kind: pa.DataType) -> None:
        self._values = pa.array([], plain_type(kind))

    def codes(self, values: pa.Array) -> NDArray[np.int32]:
        """Return the code of each value, -1 of NULL."""
        import pyarrow.compute as pc  # takes 40 ms

        own = values.dictionary_encode()
        of_own = pc.index_in(own.dictionary, value_set=self._values)
        if of_own.null_count:
            new = own.dictionary.filter(of_own.is_null())
            first = len(self._values)
            self._values = pa.concat_arrays([self._values, new])
            numbers = of_own.fill_null(-1).to_numpy().copy()
            numbers[numbers < 0] = np.arange(first, len(self._values))
        else:
            numbers = of_own.to_numpy()
        codes = own.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = numbers.take(codes).astype(np.int32) if len(numbers) else np.empty(len(codes), np.int32)
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), found, np.int32(-1))

    @property
    def values(self) -> pa.Array:
        return self._values


class EventFiles:
    """The files of an image that is written; a code of -1 becomes the place of NULL, behind all values.

    Attributes:
        count: events so far.
    """

    def __init__(self, folder: Path, kept: EventFields) -> None:
        self._folder, self._kept, self.count = folder, kept, 0
        self._files: list[BinaryIO] = []
        self._stack = ExitStack()

    def __enter__(self) -> EventFiles:
        with storing(self._folder):
            make_folder(self._folder)
        self._stack.enter_context(storing(self._folder))
        names = [TIMES, *(f"{n}.{'f64' if name in self._kept.numbers else 'i32'}" for n, name in enumerate(self._kept.names))]
        self._files = [self._stack.enter_context((self._folder / name).open("w+b", PIECE)) for name in names]
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, columns: Sequence[NDArray[Any]]) -> None:
        """Write events: their times, then their fields, codes or numbers."""
        for file, column in zip(self._files, columns, strict=True):
            file.write(np.ascontiguousarray(column).data)
        self.count += len(columns[0])

    def finish(self, values: Sequence[pa.Array], users: pa.Array, begin: Places, end: Places, time: pa.DataType) -> None:
        """Write what events are of.

        Args:
            values: of each category.
            begin, end: the events of each user.
        """
        of_fields = iter(values)
        kinds: list[pa.DataType] = []
        for number, name in enumerate(self._kept.names):
            kinds.append(pa.float64())
            if name not in self._kept.numbers:
                own = next(of_fields)
                kinds[-1] = own.type
                self._null_last(self._files[1 + number], len(own))
                self._write(f"{number}.arrow", pa.table({"value": pa.concat_arrays([own, pa.nulls(1, own.type)])}))
        keys = keys_of(users)
        order = np.argsort(keys, kind="stable")
        columns = [users.take(pa.array(order)), keys[order], begin[order], end[order]]
        said = [("time", time), *((f"value.{number}", kind) for number, kind in enumerate(kinds))]
        columns += [pa.nulls(len(order), kind) for _, kind in said]
        table = pa.table(columns, names=["user", "key", "begin", "end", *(name for name, _ in said)])
        self._write(USERS, table.replace_schema_metadata({FIELDS: json.dumps(self._kept.names)}))

    def _null_last(self, file: BinaryIO, last: int) -> None:
        for first in range(0, file.seek(0, os.SEEK_END), 4 * PIECE):
            file.seek(first)
            piece = np.frombuffer(file.read(4 * PIECE), np.int32).copy()
            piece[piece < 0] = last
            file.seek(first)
            file.write(piece.tobytes())

    def _write(self, name: str, table: pa.Table) -> None:
        with pa.OSFile(str(self._folder / name), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())


class Sides:
    """The events of two images as those of one: the places of the second follow those of the first.

    Attributes:
        values: of each category, those of the first and then what the second has beside them.
    """

    def __init__(self, old: EventImage, new: EventImage, kept: EventFields) -> None:
        self._count = len(old.times)
        self._old: list[NDArray[Any]] = [old.times]
        self._new: list[NDArray[Any]] = [new.times]
        self._become: list[NDArray[np.int32] | None] = [None]
        self.values: list[pa.Array] = []
        for name in kept.names:
            if name in kept.numbers:
                self._old.append(old.numbers(name))
                self._new.append(new.numbers(name))
                self._become.append(None)
                continue
            before, more = old.field(name), new.field(name)
            values, codes = joined(before.values, more.values)
            self.values.append(values)
            self._old.append(before.codes)
            self._new.append(codes.take(more.codes))
            self._become.append(np.append(np.arange(len(before.values) - 1), -1).astype(np.int32))

    def copy(self, written: EventFiles, first: int, end: int) -> None:
        """Write events of the first as they are."""
        for begin in range(first, end, PIECE):
            written.add(self.columns(np.arange(begin, min(end, begin + PIECE))))

    def columns(self, places: Places) -> list[NDArray[Any]]:
        """Return times and fields of events of both."""
        own = places < self._count
        found = []
        for old, new, become in zip(self._old, self._new, self._become, strict=True):
            column = np.empty(len(places), old.dtype)
            column[own] = old.take(places[own]) if become is None else become.take(old.take(places[own]))
            column[~own] = new.take(places[~own] - self._count)
            found.append(column)
        return found

    def sorted(self, begin: int, end: int, more: int, stop: int) -> Places:
        """Return the places of a user's events of both, by time and, of one time, by values."""
        places = np.concatenate([np.arange(begin, end), self._count + np.arange(more, stop)])
        times, *columns = self.columns(places)
        if (np.diff(times) > 0).all():
            return places
        values = iter(self.values)
        ranks = [ranked(column) if column.dtype == np.float64 else rank_of(column, next(values)) for column in columns]
        return places[np.lexsort([*reversed(ranks), times])]


def joined(before: pa.Array, more: pa.Array) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return the distinct values of two fields, and the codes among them of the second's; -1 of NULL, which both have last."""
    import pyarrow.compute as pc  # takes 40 ms

    known, own = before[:-1], more[:-1].cast(before.type)
    found = pc.index_in(own, value_set=known)
    new = found.is_null()
    codes = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    missing = new.to_numpy(zero_copy_only=False)
    codes[missing] = len(known) + np.arange(missing.sum())
    return pa.concat_arrays([known, own.filter(new)]), np.append(codes, np.int32(-1))


def rank_of(codes: NDArray[np.int32], values: pa.Array) -> NDArray[np.int64]:
    """Return numbers in the order of the values that codes stand for, NULL, of code -1, first."""
    import pyarrow.compute as pc  # takes 40 ms

    own, inverse = np.unique(codes, return_inverse=True)
    there = own[own >= 0]
    ranks = np.empty(len(there), np.int64)
    ranks[pc.sort_indices(values.take(pa.array(there))).to_numpy()] = np.arange(len(there))
    return np.concatenate([np.full(len(own) - len(there), -1), ranks])[inverse]


def ranked(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers in order, NULL first."""
    return np.where(np.isnan(numbers), -np.inf, numbers)


def plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def as_floats(values: pa.Array) -> NDArray[np.float64]:
    found: NDArray[np.float64] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found
