"""Sequences that are spans of an event image: lists that share their values, which stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.blocks.histories import Elements
from ....algorithms.blocks.searched import SpanElements
from ..slot import Slot
from ..vocabulary import ABSENT, keys_of
from .base import Encoding

FEW = 8
"""Among at most so many times fewer elements than there are values, those that occur are found by sorting."""


def is_spans(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_list_view(kind))


def of_spans(piece: pa.Array, slot: Slot, encoding: Encoding) -> Elements:
    """Return the last `length` elements of each span."""
    sizes = piece.sizes.to_numpy()
    end, own = piece.offsets.to_numpy() + sizes, np.minimum(sizes, slot.length)
    codes, values = piece.values.indices.to_numpy(), piece.values.dictionary
    before = np.cumsum(own) - own
    places = np.arange(own.sum()) + np.repeat(end - own - before, own)
    used, inverse = distinct(codes.take(places), len(values))
    return Elements(codes_of(values, used, slot, encoding).take(inverse), own, sizes)


def searched_spans(piece: pa.Array, slot: Slot, encoding: Encoding) -> SpanElements:
    """Return the last `length` elements of each span, which stay where they are: every value of the image is a feature."""
    sizes = piece.sizes.to_numpy()
    end, values = piece.offsets.to_numpy() + sizes, piece.values.dictionary
    codes = codes_of(values, np.arange(len(values)), slot, encoding)
    return SpanElements(piece.values.indices.to_numpy(), codes, end - np.minimum(sizes, slot.length), end, sizes)


def distinct(codes: NDArray[np.int32], size: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the distinct codes, of which there are `size` at most, and the place of each among them."""
    if len(codes) * FEW < size:
        used, inverse = np.unique(codes, return_inverse=True)
        return used.astype(np.intp), inverse
    there = np.zeros(size, np.bool_)
    there[codes] = True
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - np.int32(1)).take(codes)


def codes_of(values: pa.Array, used: NDArray[np.intp], slot: Slot, encoding: Encoding) -> NDArray[np.int32]:
    """Return the codes of some values of an image in a chunk; ABSENT of NULL, which has the last place."""
    own = values.take(pa.array(used))
    if own.null_count:
        own = own.drop_null()
    codes = encoding.add(keys_of(own, slot), slot) + np.arange(len(used), dtype=np.int32)
    codes[len(own) :] = ABSENT
    return codes
