"""Keys of features: 64-bit hashes that plain SQL computes too.

A feature's key is xxhash64(slot, CAST(value AS STRING)) exactly as Spark SQL evaluates it: XXH64 with seed 42, where the hash
of one argument is the seed of the next and NULL leaves it unchanged. The values are a format: models on disk depend on them.

Source: Spark's org.apache.spark.sql.catalyst.expressions.XxHash64 and HashExpression, for what each type hashes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import _native

Keys = npt.NDArray[np.uint64]
Seeds = int | Keys

SEED = 42
NUM_SLICES = 1024
SLICE_SHIFT = 54
MIX_SHIFT = np.uint64(33)  # applied twice it is the identity
MIX_FACTORS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def slices(keys: Keys) -> npt.NDArray[np.int64]:
    """Return the slice of each key, in [0, 1024): its top ten bits."""
    return (keys >> np.uint64(SLICE_SHIFT)).astype(np.int64)


@functools.lru_cache(maxsize=1 << 14)
def slot_seed(slot: str) -> int:
    """Return xxhash64(slot): the seed of the slot's values, and the key of its NULL."""
    name = np.frombuffer(slot.encode(), np.uint8)
    return int(_native.hash_bytes(np.array([0, name.size], np.int32), name, seeds=SEED)[0])


def hashed_keys(slot: str, ids: pa.Array) -> Keys:
    """Return xxhash64(slot, id) of ready-made ids, hashed as BIGINT; NULL gives the key of the slot's NULL."""
    return hash_integer(as_ids(slot, ids), slot_seed(slot), _native.hash_int64)


def raw_keys(slot: str, ids: pa.Array) -> Keys:
    """Return ids as keys, mixed by the finalizer of MurmurHash3 (Appleby, 2011), so that they spread over slices."""
    keys = numbers(as_ids(slot, ids), np.dtype("u8"))
    for factor in MIX_FACTORS:
        keys = (keys ^ (keys >> MIX_SHIFT)) * factor
    keys ^= keys >> MIX_SHIFT
    if ids.null_count:
        keys[ids.is_null().to_numpy(zero_copy_only=False)] = slot_seed(slot)
    return keys


def raw_ids(keys: Keys) -> Keys:
    """Return the ids of keys that raw_keys made."""
    ids = keys ^ (keys >> MIX_SHIFT)
    for factor in reversed(MIX_FACTORS):
        ids = ids * np.uint64(pow(int(factor), -1, 1 << 64))
        ids ^= ids >> MIX_SHIFT
    return ids


def as_ids(slot: str, ids: pa.Array) -> pa.Array:
    """Return ready-made ids as int64."""
    if not pa.types.is_integer(ids.type):
        raise TypeError(f"ready-made ids of slot {slot!r} must be integers, got {ids.type}; CAST them AS BIGINT")
    return as_type(ids, pa.int64())


def feature_keys(slot: str, values: pa.Array) -> Keys:
    """Return xxhash64(slot, CAST(value AS STRING)), uint64[n]; NULL gives xxhash64(slot).

    Args:
        slot: the slot's name.
        values: strings, bools, integers or dates, or a dictionary of those.

    Raises:
        TypeError: values of another type.
    """
    return hash_text(values, slot_seed(slot), slot)


def hash_text(values: pa.Array, seed: int, slot: str) -> Keys:
    """Hash the decimal, ISO or plain text of values, after a seed."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return take_or(hash_text(values.dictionary, seed, slot), values.indices, seed)
    if is_text(kind):
        return hash_strings(values, seed)
    if pa.types.is_uint64(kind):
        return hash_strings(values.cast(pa.string()), seed)
    if pa.types.is_integer(kind):
        whole = numbers(values, np.dtype(kind.to_pandas_dtype())).astype(np.int64, copy=False)
        return _native.hash_int64_text(whole, *validity(values), seed)
    if pa.types.is_boolean(kind):
        return take_or(hash_strings(pa.array(["false", "true"]), seed), values.cast(pa.uint8()), seed)
    if pa.types.is_date(kind):
        days = values.cast(pa.date32()).dictionary_encode()
        return take_or(hash_strings(date_text(days.dictionary), seed), days.indices, seed)
    if pa.types.is_null(kind):
        return np.full(len(values), seed, np.uint64)
    raise TypeError(
        f"slot {slot!r} must hold strings, bools, integers or dates to be categorical, got {kind}; CAST it AS STRING"
    )


def cross_keys(slot: str, members: Sequence[tuple[pa.Array, npt.NDArray[np.int64]]]) -> Keys:
    """Return feature_key(slot, cross(value, value, ...)), uint64[n], without the text of cross.

    Args:
        slot: the slot's name.
        members: values of each member, as feature_keys takes them, and which of them each key is of: int64[n].

    Raises:
        TypeError: values of another type.
    """
    count = len(members[0][1])
    if not count:
        return np.empty(0, np.uint64)
    return _native.hash_cross([texts(values, positions, slot) for values, positions in members], count, slot_seed(slot))


def texts(values: pa.Array, positions: npt.NDArray[np.int64], slot: str) -> tuple[Any, ...]:
    """Return the memory of values' texts, as CAST AS STRING writes them, and where the texts of some positions stand."""
    if not is_text(values.type):
        values, positions = as_text(values.take(pa.array(positions)), slot), np.arange(len(positions))
    values = with_offsets(values)
    ends, text = text_buffers(values)
    return ends, text, *validity(values), positions


def as_text(values: pa.Array, slot: str) -> pa.Array:
    """Return values as strings."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        decoded = values.dictionary_decode()
        return decoded if is_text(decoded.type) else as_text(decoded, slot)
    if pa.types.is_date(kind):
        days = values.cast(pa.date32()).dictionary_encode()
        return pa.DictionaryArray.from_arrays(days.indices, date_text(days.dictionary)).dictionary_decode()
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return values.cast(pa.string())
    raise TypeError(f"slot {slot!r} crosses strings, bools, integers or dates, got {kind}; CAST it AS STRING")


def as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values of another type; the module that casts takes 40 ms to load."""
    return values if values.type == kind else values.cast(kind)


def take_or(keys: Keys, indices: pa.Array, default: int) -> Keys:
    """Return keys[indices], with a default where the index is NULL."""
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(len(keys))
        keys = np.append(keys, np.uint64(default))
    positions: npt.NDArray[np.int64] = indices.to_numpy(zero_copy_only=False)
    return keys.take(positions)


def date_text(days: pa.Array) -> pa.Array:
    """Return dates, none of them NULL, as Spark writes them: years before 0000 and after 9999 have a sign."""
    dates = days.to_numpy(zero_copy_only=False).astype("datetime64[D]")
    starts = dates.astype("datetime64[M]")
    months = starts.astype(np.int64) + 1970 * 12
    parts = zip(months // 12, months % 12 + 1, (dates - starts).astype(np.int64) + 1, strict=True)
    return pa.array(
        [f"{'-' if y < 0 else '+' if y > 9999 else ''}{abs(y):04d}-{m:02d}-{d:02d}" for y, m, d in parts], pa.string()
    )


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are bytes of any length, in one of Arrow's layouts."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Return whether values are lists, in one of Arrow's layouts; a map is not."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def hash_strings(values: pa.Array, seeds: Seeds, function: Callable[..., Keys] = _native.hash_bytes) -> Keys:
    """Hash the bytes of strings or binaries."""
    values = with_offsets(values)
    if len(values) == 0:
        return np.empty(0, np.uint64)
    return function(*text_buffers(values), *validity(values), seeds)


def with_offsets(values: pa.Array) -> pa.Array:
    """Return strings or binaries in a layout with offsets, 32 or 64 bits each."""
    kind = values.type
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)):
        return values
    return values.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())


def text_buffers(values: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Return the offsets and bytes of strings or binaries, one at least, that have offsets."""
    _, offsets, data = values.buffers()
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    ends = np.frombuffer(offsets, np.int64 if large else np.int32, values.offset + len(values) + 1)
    return ends[values.offset :], np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)


def hash_integer(values: pa.Array, seeds: Seeds, function: Callable[..., Keys]) -> Keys:
    """Hash the numbers behind an array of 32 or 64 bits with a function of the native module."""
    return function(numbers(values, np.dtype(f"i{values.type.bit_width // 8}")), *validity(values), seeds)


def numbers(values: pa.Array, dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
    """Return the memory behind an array of fixed-size values, without a copy; elements under NULL are arbitrary."""
    data = values.buffers()[1]
    if len(values) == 0 or data is None:
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype, values.offset + len(values))[values.offset :]


def validity(values: pa.Array) -> tuple[npt.NDArray[np.uint8] | None, int]:
    """Return an array's validity bitmap, None where nothing is NULL, and the bit it starts at."""
    bitmap = values.buffers()[0]
    if values.null_count == 0 or bitmap is None:
        return None, 0
    return np.frombuffer(bitmap, np.uint8), values.offset
