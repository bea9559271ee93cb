"""Categorical slots: one category per example, of any type whose values have a unique text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...ps._native import unique
from ...ps.keys import is_text, numbers, slot_seed
from ...spark_types import is_category
from ..slot import Slot
from ..vocabulary import ABSENT, Codes, keys_of
from .base import Encoding, ScalarKind

DENSE_RANGE = 4


class Categorical(ScalarKind):
    """One category per example; a NULL is a category of its own, or absent."""

    name = "categorical"
    types = "strings, integers, booleans and dates are categories"
    native = "categorical"

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return not role and is_category(type)

    def rewritten(self, now: str, before: str) -> bool:
        """Return whether values are written in another way: 1 is not true, nor a date; strings may be written in any."""
        ways = {way(now), way(before)}
        return len(ways) > 1 and "string" not in ways

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding, out: Codes) -> None:
        at = 0
        for piece in column.chunks:
            keys, indices = distinct_keys(piece, slot)
            first = encoding.add(keys, slot)
            target = out[at : at + len(piece)]
            np.add(indices, np.int32(first), out=target, casting="unsafe")
            if piece.null_count and not (encoding.null_features and is_text(piece.type)):
                seed = np.array([slot_seed(slot.source)], np.uint64)
                null = encoding.add(seed, slot) if encoding.null_features else ABSENT
                target ^= (target ^ np.int32(null)) & -nulls(piece).astype(np.int32)  # NULLs, without a branch for each
            at += len(piece)


def distinct_keys(piece: pa.Array, slot: Slot) -> tuple[NDArray[np.uint64], NDArray[np.generic]]:
    """Return the keys of an array's distinct values, and each element's index among them; of a NULL, any index.

    Each text and each integer is hashed, which is cheaper than finding the distinct ones, and a NULL has the key of the slot's
    NULL. Integers of a small range are found by a table of that range instead.
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
        if not pa.types.is_uint64(piece.type):  # whose texts are made first
            return unique(keys_of(piece, slot))
    if not pa.types.is_dictionary(piece.type):
        piece = piece.dictionary_encode()
    return keys_of(piece.dictionary, slot), raw_integers(piece.indices)


def nulls(piece: pa.Array) -> NDArray[np.bool_]:
    """Return which elements of an array with NULLs are NULL."""
    bits = np.frombuffer(piece.buffers()[0], np.uint8)
    valid = np.unpackbits(bits, count=piece.offset + len(piece), bitorder="little")[piece.offset :]
    return np.equal(valid, 0)


def raw_integers(values: pa.Array) -> NDArray[np.signedinteger[Any]]:
    """Return the memory of an integer array: behind a NULL is whatever its writer left there."""
    return numbers(values, np.dtype(values.type.to_pandas_dtype()))


def way(words: str) -> str:
    """Return how values of a type are written: as boolean, date, int or string."""
    return next((one for one in ("boolean", "date") if words.startswith(one)), "int" if words.endswith("int") else "string")


CATEGORICAL = Categorical()
