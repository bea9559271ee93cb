"""Encoding: Arrow columns to keys.

A chunk's distinct features are hashed once; its examples refer to them by small codes, so that finding a batch's unique keys
is an array look-up. Equal keys of two slots (WITH share) have one code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError
from ..operators.base import INTERCEPT_NUMBER
from ..ps._native import unique
from ..ps.keys import feature_keys, hashed_keys, is_text, numbers, slot_seed
from .columns import CATEGORICAL, CONTINUOUS, INTERCEPT, MULTI, VECTOR, WEIGHTED, Columns, Slot

Codes = NDArray[np.int32]
ABSENT = -1
DENSE_RANGE = 4
LAST_SECOND = 2**32 - 1


class Bag(NamedTuple):
    """The values of one multi-valued or weighted slot.

    Attributes:
        codes: int32[k].
        weights: float32[k].
        offsets: int64[rows + 1]; the values of example i are offsets[i]:offsets[i + 1].
    """

    codes: Codes
    weights: NDArray[np.float32]
    offsets: NDArray[np.int64]


class Chunk(NamedTuple):
    """Encoded examples.

    Attributes:
        keys: uint64[num_codes], distinct.
        slots: uint16[num_codes], the slot of each key.
        scalar: int32[num_scalar, rows] of codes; -1 is absent.
        bags: one per multi-valued or weighted slot.
        dense: float32[num_dense, rows], NaN where absent.
        dense_codes: int32[num_dense].
        offered_codes: int32[num_offered], the rows that are learned for what operators offer.
        label: float32[num_labels, rows], see labels_of.
        weight: float32[rows].
        time: uint32[rows], seconds since 1970; 0 without TIME.
        facets: of an evaluation that groups or divides examples; None elsewhere.
    """

    keys: NDArray[np.uint64]
    slots: NDArray[np.uint16]
    scalar: Codes
    bags: tuple[Bag, ...]
    dense: NDArray[np.float32]
    dense_codes: Codes
    offered_codes: Codes
    label: NDArray[np.float32]
    weight: NDArray[np.float32]
    time: NDArray[np.uint32]
    facets: Facets | None = None


class Facets(NamedTuple):
    """What an evaluation knows of examples beside label and prediction; empty where it asks for none.

    Attributes:
        groups: uint64[rows], hashes of the GROUP column.
        segments: str[rows], values of the BY column.
    """

    groups: NDArray[np.uint64]
    segments: NDArray[np.object_]

    def part(self, start: int, stop: int) -> Facets:
        """Return those of examples start:stop."""
        return Facets(self.groups[start:stop], self.segments[start:stop])


class Vocabulary:
    """The distinct features of one chunk while it is being encoded; hands out codes."""

    def __init__(self) -> None:
        self.keys: list[NDArray[np.uint64]] = []
        self.slots: list[NDArray[np.uint16]] = []
        self.size = 0

    def add(self, keys: NDArray[np.uint64], slot: int) -> int:
        """Add keys of a slot and return the first one's provisional code."""
        self.keys.append(keys)
        self.slots.append(np.full(len(keys), slot, np.uint16))
        self.size += len(keys)
        return self.size - len(keys)

    def finish(self) -> tuple[NDArray[np.uint64], NDArray[np.uint16], Codes | None]:
        """Return the distinct keys, their slots, and the final code of each provisional one, followed by -1 for absent.

        None instead of final codes: no key was added twice, and provisional codes are final.
        """
        if not self.size:
            return np.empty(0, np.uint64), np.empty(0, np.uint16), None
        added, numbers = np.concatenate(self.keys), np.concatenate(self.slots)
        keys, inverse = unique(added)
        if len(keys) == len(added):
            return added, numbers, None
        slots = np.empty(len(keys), np.uint16)
        slots[inverse[::-1]] = numbers[::-1]
        return keys, slots, np.append(inverse, np.int32(ABSENT))


def encode(table: pa.Table, columns: Columns, with_labels: bool) -> Chunk:
    """Encode a chunk of rows.

    Args:
        table: columns.learned, or columns.inputs when scoring.
        columns: slots and roles.
        with_labels: read label, weight and time too.

    Raises:
        DataError: a vector whose length differs from the others'.
    """
    rows = table.num_rows
    vocabulary = Vocabulary()
    number = {slot.name: slot.number for slot in columns.slots}
    scalar_slots = columns.of_kind(CATEGORICAL)
    scalar = np.empty((len(scalar_slots) + columns.intercept, rows), np.int32)
    for line, slot in zip(scalar, scalar_slots, strict=False):
        encode_categorical(table.column(slot.name), slot, number[slot.source], columns.null_features, vocabulary, line)
    if columns.intercept:
        scalar[-1] = vocabulary.add(np.array([slot_seed(INTERCEPT)], np.uint64), INTERCEPT_NUMBER)
    bags = tuple(encode_bag(table.column(s.name), s, number[s.source], vocabulary) for s in columns.of_kind(MULTI, WEIGHTED))
    dense, dense_codes = encode_dense(table, columns, vocabulary)
    offered = [vocabulary.add(np.array([slot_seed(slot.name)], np.uint64), slot.number) for slot in columns.offered]
    offered_codes = np.array(offered, np.int32)
    keys, slots, final = vocabulary.finish()
    return Chunk(
        keys,
        slots,
        scalar if final is None else final.take(scalar, mode="wrap"),
        bags if final is None else tuple(bag._replace(codes=final.take(bag.codes)) for bag in bags),
        dense,
        dense_codes if final is None else final.take(dense_codes),
        offered_codes if final is None else final.take(offered_codes),
        labels_of(table, columns) if with_labels else np.zeros((0, rows), np.float32),
        floats(table.column(columns.weight)) if with_labels and columns.weight else np.ones(table.num_rows, np.float32),
        seconds(table.column(columns.time), columns.time) if with_labels and columns.time else np.zeros(rows, np.uint32),
        facets_of(table, columns) if with_labels and (columns.grouped or columns.by) else None,
    )


def labels_of(table: pa.Table, columns: Columns) -> NDArray[np.float32]:
    """Return the labels, float32[num_labels, rows], NaN where NULL; of a model without labels one line of zeros."""
    if not columns.labels:
        return np.zeros((1, table.num_rows), np.float32)
    return np.stack([floats(table.column(name)) for name in columns.labels])


def facets_of(table: pa.Table, columns: Columns) -> Facets:
    """Return what an evaluation knows of examples; NULL is a group and a segment."""
    groups, segments = np.empty(0, np.uint64), np.empty(0, np.object_)
    if columns.grouped and columns.group:
        groups = groups_of(table.column(columns.group), columns.group)
    if columns.by:
        words = words_of(table.column(columns.by))
        segments = words.dictionary.to_numpy(zero_copy_only=False)[words.indices.to_numpy()]
    return Facets(groups, segments)


def groups_of(column: pa.ChunkedArray, name: str) -> NDArray[np.uint64]:
    """Return the hashes of a GROUP column's values, uint64[rows]; NULL is a group."""
    words = words_of(column)
    keys: NDArray[np.uint64] = feature_keys(name, words.dictionary)[words.indices.to_numpy()]
    return keys


def words_of(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return the values of a column as text, NULL as `NULL`, and texts that would look like it in quotes."""
    array = column.combine_chunks()
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    words = plain.cast(pa.string()).dictionary_encode(null_encoding="encode")
    told = pc.replace_substring_regex(words.dictionary, "^('*NULL'*)$", r"'\1'").fill_null("NULL")
    return pa.DictionaryArray.from_arrays(words.indices, told)


def encode_categorical(
    column: pa.ChunkedArray, slot: Slot, source_number: int, null_features: bool, vocabulary: Vocabulary, out: Codes
) -> None:
    """Write the provisional codes of a categorical column into out: int32[rows]."""
    at = 0
    for piece in column.chunks:
        keys, indices = distinct_keys(piece, slot)
        first = vocabulary.add(keys, source_number)
        target = out[at : at + len(piece)]
        np.add(indices, np.int32(first), out=target, casting="unsafe")
        if piece.null_count and not (null_features and is_text(piece.type)):
            seed = np.array([slot_seed(slot.source)], np.uint64)
            null = vocabulary.add(seed, source_number) if null_features else ABSENT
            target ^= (target ^ np.int32(null)) & -nulls(piece).astype(np.int32)  # where NULL: without a branch for each
        at += len(piece)


def distinct_keys(piece: pa.Array, slot: Slot) -> tuple[NDArray[np.uint64], NDArray[np.generic]]:
    """Return the keys of an array's distinct values, and each element's index among them; of a NULL, any index.

    Of text each element is hashed, which takes less than to find the distinct words, and a NULL has the key of the slot's NULL.
    Integers of a small range are found by a table of that range instead of a hash of each element.
    """
    if is_text(piece.type):
        return unique(keys_of(piece, slot))
    if pa.types.is_integer(piece.type) and len(piece):
        raw = raw_integers(piece)
        low, high = int(raw.min()), int(raw.max())
        if high - low <= DENSE_RANGE * len(piece):
            place = np.subtract(raw, low, dtype=np.int64)
            found = np.zeros(high - low + 1, np.bool_)
            found[place] = True
            codes = np.cumsum(found, dtype=np.int32) - np.int32(1)
            return keys_of(pa.array(np.flatnonzero(found) + low), slot), codes.take(place)
    if not pa.types.is_dictionary(piece.type):
        piece = piece.dictionary_encode()
    return keys_of(piece.dictionary, slot), raw_integers(piece.indices)


def nulls(piece: pa.Array) -> NDArray[np.bool_]:
    """Return which elements of an array that has some are NULL."""
    bits = np.frombuffer(piece.buffers()[0], np.uint8)
    valid = np.unpackbits(bits, count=piece.offset + len(piece), bitorder="little")[piece.offset :]
    return np.equal(valid, 0)


def raw_integers(values: pa.Array) -> NDArray[np.signedinteger[Any]]:
    """Return the memory of an integer array: behind a NULL is whatever its writer left there."""
    return numbers(values, np.dtype(values.type.to_pandas_dtype()))


def keys_of(values: pa.Array, slot: Slot) -> NDArray[np.uint64]:
    """Return the keys of a slot's values."""
    return hashed_keys(slot.source, values) if slot.hashed else feature_keys(slot.source, values)


def encode_bag(column: pa.ChunkedArray, slot: Slot, source_number: int, vocabulary: Vocabulary) -> Bag:
    """Encode an array or map column; NULL arrays and NULL values are absent."""
    codes, weights, lengths = [], [], []
    for piece in column.chunks:
        if slot.kind == MULTI:
            values, numbers = piece.flatten(), piece.value_parent_indices().to_numpy(zero_copy_only=False)
            value_weights = np.ones(len(values), np.float32)
        else:
            values, value_weights, numbers = flatten_map(piece)
        keep = values.is_valid().to_numpy(zero_copy_only=False) & np.isfinite(value_weights)
        dictionary = values.dictionary_encode()
        first = vocabulary.add(keys_of(dictionary.dictionary, slot), source_number)
        indices = dictionary.indices.fill_null(0).to_numpy(zero_copy_only=False)
        codes.append((indices[keep] + first).astype(np.int32))
        weights.append(value_weights[keep])
        lengths.append(np.bincount(numbers[keep], minlength=len(piece)))
    joined = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
    return Bag(
        np.concatenate(codes) if codes else np.empty(0, np.int32),
        np.concatenate(weights) if weights else np.empty(0, np.float32),
        np.concatenate([[0], np.cumsum(joined)]).astype(np.int64),
    )


def flatten_map(piece: pa.MapArray) -> tuple[pa.Array, NDArray[np.float32], NDArray[np.int64]]:
    """Return the keys, values (NaN where NULL) and row numbers of a map column's entries."""
    entries = pa.ListArray.from_arrays(piece.offsets, pa.StructArray.from_arrays([piece.keys, piece.items], ["k", "v"]))
    if piece.null_count:
        import pyarrow.compute as pc  # takes 40 ms, and few columns need it

        entries = pc.if_else(piece.is_valid(), entries, pa.scalar([], entries.type))
    flat = entries.flatten()
    return flat.field("k"), floats(flat.field("v")), entries.value_parent_indices().to_numpy(zero_copy_only=False)


def encode_dense(table: pa.Table, columns: Columns, vocabulary: Vocabulary) -> tuple[NDArray[np.float32], Codes]:
    """Encode continuous slots, one line each, then vectors, one line per element."""
    lines: list[NDArray[np.float32]] = []
    codes: list[int] = []
    for slot in columns.of_kind(CONTINUOUS):
        values = floats(table.column(slot.name))
        lines.append(np.copysign(np.log1p(np.abs(values)), values) if columns.logarithmic else values)
        codes.append(vocabulary.add(np.array([slot_seed(slot.name)], np.uint64), slot.number))
    for slot in columns.of_kind(VECTOR):
        vectors = vector_lines(table.column(slot.name), slot)
        first = vocabulary.add(hashed_keys(slot.name, pa.array(np.arange(len(vectors)))), slot.number)
        lines.extend(vectors)
        codes.extend(range(first, first + len(vectors)))
    dense = np.stack(lines) if lines else np.zeros((0, table.num_rows), np.float32)
    return dense, np.array(codes, np.int32)


def vector_lines(column: pa.ChunkedArray, slot: Slot) -> NDArray[np.float32]:
    """Return a vector column as float32[dim, rows]; a NULL vector is all absent.

    Raises:
        DataError: a vector has another length than the slot's.
    """
    array = column.combine_chunks()
    lengths = array.value_lengths().fill_null(slot.dim).to_numpy()
    if len(wrong := lengths[lengths != slot.dim]):
        fitting = f"WHERE size({slot.name}) = {slot.dim}"
        raise DataError(f"The vectors of {slot.name} have {slot.dim} elements; one has {wrong[0]}. {fitting} leaves it out.")
    vectors = np.full((len(array), slot.dim), np.nan, np.float32)
    vectors[array.is_valid().to_numpy(zero_copy_only=False)] = floats(array.flatten()).reshape(-1, slot.dim)
    return vectors.T


def floats(values: pa.Array | pa.ChunkedArray) -> NDArray[np.float32]:
    """Return numbers, decimals or booleans as float32, NaN where NULL, infinite beyond its range."""
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    array = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    with np.errstate(over="ignore"):
        return np.asarray(array, np.float32)


def shown(value: np.float32) -> str:
    """Return one of `floats` as SQL has it."""
    return "NULL or NaN" if np.isnan(value) else f"{value:g}"


def seconds(column: pa.ChunkedArray, name: str) -> NDArray[np.uint32]:
    """Return a timestamp, date or integer column as seconds since 1970, 0 where NULL or earlier.

    Raises:
        DataError: a time is later than 32 bits can tell; names the column and the time.
    """
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s"))
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s", kind.tz), safe=False)
    values: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy()
    if len(values) and (latest := int(values.max())) > LAST_SECOND:
        raise DataError(
            f"TIME {name} must be seconds since 1970, at most {LAST_SECOND} (in 2106); one is {latest}. Divide milliseconds by "
            "1000, or leave later times out in the query."
        )
    return np.maximum(values, 0).astype(np.uint32)
