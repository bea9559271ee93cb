"""Spark's hashes of rows of columns of any type: xxhash64 and hash.

Source: Spark's org.apache.spark.sql.catalyst.expressions.HashExpression, for what each type hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import _native
from .keys import SEED, Keys, Seeds, hash_integer, hash_strings, is_list, is_text, numbers, validity


class Hash(NamedTuple):
    """A hash of each kind of memory, with seeds, in the native module."""

    int32: Callable[..., Keys]
    int64: Callable[..., Keys]
    text: Callable[..., Keys]


XX = Hash(_native.hash_int32, _native.hash_int64, _native.hash_bytes)
MURMUR = Hash(_native.murmur_int32, _native.murmur_int64, _native.murmur_bytes)


def xxhash64(columns: Sequence[pa.Array]) -> Keys:
    """Return Spark's xxhash64(column, column, ...), uint64[n].

    Args:
        columns: one or more arrays of n values each, of any type that Spark hashes; a map is refused, as Spark refuses it.

    Raises:
        TypeError: a column of a type that is not hashed.
        ValueError: no columns, or columns of different lengths.
    """
    return hashed(columns, XX)


def murmur(columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """Return Spark's hash(column, column, ...), int32[n]; arguments and errors as those of xxhash64."""
    return hashed(columns, MURMUR).astype(np.uint32).view(np.int32)


def hashed(columns: Sequence[pa.Array], by: Hash) -> Keys:
    """Return the hash of each row of columns."""
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"a hash takes one or more columns of one length, got lengths {[len(c) for c in columns]}")
    keys = np.full(len(columns[0]), SEED, np.uint64)
    for column in columns:
        keys = chain(column, keys, by)
    return keys


def chain(values: pa.Array, seeds: Keys, by: Hash) -> Keys:
    """Hash one column after the columns whose hashes are `seeds`."""
    kind = values.type
    if is_text(kind):
        return hash_strings(values, seeds, by.text)
    if pa.types.is_dictionary(kind):
        return chain(values.dictionary_decode(), seeds, by)
    if pa.types.is_floating(kind):
        return hash_float(values, seeds, by)
    if pa.types.is_decimal(kind):
        return hash_decimal(values, seeds, by)
    if pa.types.is_struct(kind):
        return hash_struct(values, seeds, by)
    if is_list(kind):
        return hash_list(values, seeds, by)
    if pa.types.is_null(kind):
        return seeds
    if pa.types.is_uint64(kind):
        return hash_decimal(values.cast(pa.decimal128(20, 0)), seeds, by)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return hash_integer(microseconds(values), seeds, by.int64)
    if pa.types.is_int64(kind) or pa.types.is_uint32(kind):
        return hash_integer(values.cast(pa.int64()), seeds, by.int64)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return hash_integer(values.cast(pa.int32()), seeds, by.int32)
    if pa.types.is_date(kind):
        return hash_integer(values.cast(pa.date32()), seeds, by.int32)
    raise TypeError(f"a hash does not take {kind}; CAST it AS STRING, or hash a map's keys and values as arrays")


def hash_float(values: pa.Array, seeds: Seeds, by: Hash) -> Keys:
    """Hash the bits of floats, with one zero and one NaN, as Java's floatToIntBits and doubleToLongBits give them."""
    double = pa.types.is_float64(values.type)
    values = values if double else values.cast(pa.float32())
    floats = numbers(values, np.dtype("f8" if double else "f4")).copy()
    floats[floats == 0] = 0
    floats[np.isnan(floats)] = np.nan
    if double:
        return by.int64(floats.view(np.int64), *validity(values), seeds)
    return by.int32(floats.view(np.int32), *validity(values), seeds)


def hash_decimal(values: pa.Array, seeds: Seeds, by: Hash) -> Keys:
    """Hash the unscaled value: as BIGINT up to 18 digits, else as the bytes of Java's BigInteger.toByteArray."""
    precision, scale = values.type.precision, values.type.scale
    values = values.cast(pa.decimal128(precision, scale))
    words = numbers(values, np.dtype("i8,i8"))
    if precision <= 18:
        return by.int64(np.ascontiguousarray(words["f0"]), *validity(values), seeds)
    little = np.frombuffer(words.tobytes(), np.uint8).reshape(-1, 16)
    significant = little ^ (np.where(words["f1"] < 0, 255, 0)[:, None]).astype(np.uint8)
    top = 15 - np.argmax(significant[:, ::-1] != 0, axis=1)
    top[~significant.any(axis=1)] = 0
    rows = np.arange(len(values))
    length = top + 1 + (significant[rows, top] > 127)
    kept = np.arange(16)[None, ::-1] < length[:, None]
    offsets = np.concatenate([[0], np.cumsum(length)])
    return by.text(offsets, little[:, ::-1][kept], *validity(values), seeds)


def hash_struct(values: pa.Array, seeds: Keys, by: Hash) -> Keys:
    """Hash the fields of structs in order; a NULL struct leaves its seed."""
    keys = seeds
    for field in values.flatten():
        keys = chain(field, keys, by)
    return keys


def hash_list(values: pa.Array, seeds: Keys, by: Hash) -> Keys:
    """Hash the elements of lists in order, one position of all lists at a time."""
    if pa.types.is_fixed_size_list(values.type):
        values = values.cast(pa.large_list(values.type.value_type))
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    begins = values.offsets.to_numpy()[: len(values)]
    keys = seeds.copy()
    for position in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > position)
        keys[rows] = chain(values.values.take(pa.array(begins[rows] + position)), keys[rows], by)
    return keys


def microseconds(values: pa.Array) -> pa.Array:
    """Return timestamps or durations as int64 microseconds, nanoseconds rounded down."""
    integers = values.cast(pa.int64())
    if values.type.unit != "ns":
        scale = {"s": 1_000_000, "ms": 1_000, "us": 1}[values.type.unit]
        return pa.array(numbers(integers, np.dtype("i8")) * scale, mask=values.is_null().to_numpy(zero_copy_only=False))
    return pa.array(numbers(integers, np.dtype("i8")) // 1_000, mask=values.is_null().to_numpy(zero_copy_only=False))
